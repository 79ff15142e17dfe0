// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/transports/nccl/polling.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

namespace ddprun::nccl {

/// Ends the process when a call of NCCL or the driver never returns. All other code here polls and
/// never blocks, but a thread that is stuck inside a call cannot poll. A thread checks once a
/// second whether the deadline of some work has passed.
class HangWatchdog {
public:
    /// Kinds of work that may run concurrently.
    enum class Work { collective, send, recv, life, steps, launch, memory };

    HangWatchdog();
    HangWatchdog(const HangWatchdog&) = delete;
    HangWatchdog& operator=(const HangWatchdog&) = delete;
    ~HangWatchdog();

    /// While it exists, this work is watched. Only one work of each kind is watched at a time.
    class Watch {
    public:
        Watch(HangWatchdog& watchdog, Work work, Clock::time_point latest_end)
            : latest_end_(watchdog.latest_end_of(work)) {
            latest_end_ = latest_end.time_since_epoch().count();
        }
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        ~Watch() { latest_end_ = none; }

    private:
        std::atomic<Clock::rep>& latest_end_;
    };

private:
    static constexpr Clock::rep none = 0;

    std::atomic<Clock::rep>& latest_end_of(Work work) {
        return latest_ends_[static_cast<std::size_t>(work)];
    }
    void look();

    std::array<std::atomic<Clock::rep>, 7> latest_ends_{};
    std::mutex mutex_;
    std::condition_variable ended_;
    bool is_over_ = false;
    std::thread thread_;
};

}  // namespace ddprun::nccl
