// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/arena.hpp"
#include "worker_sdk/src/transports/nccl/device.hpp"
#include "worker_sdk/src/transports/nccl/nccl_functions.hpp"

#include <cstddef>
#include <mutex>
#include <set>

namespace ddprun::nccl {

/// Memory of one GPU for collectives, independent of the group: from NCCL's allocator where it has
/// one (such memory can be registered, so that the network and the switches access it directly),
/// else from the driver's.
class DeviceArena : public groups::Arena {
public:
    /// Both are used until the process ends.
    DeviceArena(const NcclFunctions& nccl, const Device& device) : nccl_(nccl), device_(device) {}

    void* take(std::size_t bytes) override;
    bool has_substitute() const override { return false; }
    void give_back(void* data, std::size_t bytes) override;

private:
    void* allocate(std::size_t bytes);

    const NcclFunctions& nccl_;
    const Device& device_;
    std::mutex mutex_;
    std::set<void*> from_nccl_;
};

}  // namespace ddprun::nccl
