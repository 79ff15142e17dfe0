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

    /// Enqueues the copy to the device, and changes `collective` (all_reduce, broadcast or
    /// all_gather) to work on that copy.
    DriverFunctions::Status send(
        groups::Collective& collective, int rank, int world_size, const Queue& queue);
    /// Enqueues the copy back, and marks the end that the caller waits for in `queue`.
    DriverFunctions::Status fetch(const Queue& queue);
    /// Copies the result to the program's memory. Requires: the wait for `fetch` has ended.
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
