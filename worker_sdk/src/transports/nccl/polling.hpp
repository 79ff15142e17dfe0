// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/waiting_times.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

namespace ddprun::nccl {

using Clock = std::chrono::steady_clock;

/// When to stop waiting for something that can only be polled.
struct Deadline {
    Clock::time_point until;
    /// Whether the awaited work has been cancelled.
    std::function<bool()> is_cancelled;
};

/// The pause between two polls: at first almost none, later about a hundredth of the time since the
/// first pause, so that pauses add little to the wait.
class Pause {
public:
    void take() {
        const auto now = Clock::now();
        if (start_ == Clock::time_point{}) start_ = now;
        const auto passed = now - start_;
        if (passed < waiting_times::longest_spin)
            ::sched_yield();
        else
            std::this_thread::sleep_for(
                std::min<Clock::duration>(passed / 100, waiting_times::longest_event_interval));
    }

private:
    Clock::time_point start_;
};

}  // namespace ddprun::nccl
