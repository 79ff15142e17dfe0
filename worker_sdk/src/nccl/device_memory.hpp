// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/nccl/device.hpp"
#include "worker_sdk/src/nccl/nccl_functions.hpp"

#include <cstddef>
#include <mutex>
#include <set>

namespace ddprun::nccl {

/// Memory for collectives: from NCCL's allocator where it has one (such memory can be registered,
/// so that the network and the switches access it directly), else from the driver's. Any thread.
class DeviceMemory {
public:
    explicit DeviceMemory(const NcclFunctions& nccl) : nccl_(nccl) {}

    /// Zeroed; null when memory is exhausted.
    void* take(const Device& device, std::size_t bytes);
    void give_back(const Device& device, void* data);

private:
    void* take_any(const Device& device, std::size_t bytes);

    const NcclFunctions& nccl_;
    std::mutex mutex_;
    std::set<void*> from_nccl_;
};

}  // namespace ddprun::nccl
