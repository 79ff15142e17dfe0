// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/arena.hpp"
#include "worker_sdk/src/transports/nccl/device.hpp"
#include "worker_sdk/src/transports/nccl/hang_watchdog.hpp"
#include "worker_sdk/src/transports/nccl/nccl_functions.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

namespace ddprun::nccl {

/// Memory of one GPU for collectives, independent of the group: from NCCL's allocator where it has
/// one (such memory can be registered, so that the network and the switches access it directly),
/// else from the driver's. Taking and returning memory may wait for all work of the device; the
/// hang watchdog ends the process when that takes longer than `longest_wait`.
class DeviceArena : public groups::Arena {
public:
    /// `nccl` and `device` are used until the process ends.
    DeviceArena(
        const NcclFunctions& nccl,
        const Device& device,
        std::shared_ptr<HangWatchdog> hang_watchdog,
        std::chrono::milliseconds longest_wait);

    void* take(std::size_t bytes) override;
    bool has_substitute() const override { return false; }
    void give_back(void* data, std::size_t bytes) override;

private:
    /// While it exists, the watchdog watches this thread's call. Several threads may make such
    /// calls at once: the device work that one call waits for may depend on another call.
    class Watched {
    public:
        explicit Watched(DeviceArena& arena);
        Watched(const Watched&) = delete;
        Watched& operator=(const Watched&) = delete;
        ~Watched();

    private:
        DeviceArena& arena_;
        const Clock::time_point latest_end_;
    };

    void watch_earliest();
    void* allocate(std::size_t bytes);
    void* zeroed(std::size_t bytes);
    void release(void* data);

    const NcclFunctions& nccl_;
    const Device& device_;
    const std::shared_ptr<HangWatchdog> hang_watchdog_;
    const std::chrono::milliseconds longest_wait_;
    std::mutex mutex_;  // guards what follows
    std::set<void*> from_nccl_;
    std::multiset<Clock::time_point> latest_ends_;
    std::optional<HangWatchdog::Watch> watch_;
};

}  // namespace ddprun::nccl
