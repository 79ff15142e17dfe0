// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/transports/nccl/device.hpp"
#include "worker_sdk/src/transports/nccl/pinned.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace ddprun::nccl {

/// Copies the values of collectives on host memory to the device and back, one collective at a
/// time.
class Staging {
public:
    explicit Staging(const Device& device) : device_(device) {}
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    ~Staging();

    /// Enqueues the copy to the device, and makes `collective` (all_reduce, broadcast or
    /// all_gather) one on the device.
    DriverFunctions::Status send(
        groups::Collective& collective, int rank, int world_size, const Queue& queue);
    /// Enqueues the copy back, and the end for which `queue` is then waited for.
    DriverFunctions::Status fetch(const Queue& queue);
    /// Requires: that wait has ended.
    void take(const groups::Collective& collective) const;

private:
    /// Kept to the end: freeing memory would wait for all work on the device.
    struct Place {
        std::unique_ptr<Pinned> here;
        DriverFunctions::DevicePointer there = 0;
        std::size_t bytes = 0;
    };
    DriverFunctions::Status make_room(std::size_t bytes);

    const Device& device_;
    std::vector<Place> places_;  // the last is in use
    std::size_t bytes_ = 0;      // of the result
};

}  // namespace ddprun::nccl
