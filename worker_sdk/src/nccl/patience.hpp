// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

namespace ddprun::nccl {

using Clock = std::chrono::steady_clock;

/// How long to wait for something that can only be asked.
struct Patience {
    Clock::time_point until;
    /// Somebody has given up what is waited for.
    std::function<bool()> is_given_up;
};

/// Between two questions: at first almost nothing, later about a hundredth of the time that has
/// passed since the first pause, so that it is not the pause that is measured.
class Pause {
public:
    void take() {
        const auto now = Clock::now();
        if (start_ == Clock::time_point{}) start_ = now;
        const auto passed = now - start_;
        if (passed < longest_spin)
            ::sched_yield();
        else
            std::this_thread::sleep_for(std::min<Clock::duration>(passed / 100, longest_sleep));
    }

private:
    /// A sleep takes some 60 us more than it is told.
    static constexpr std::chrono::milliseconds longest_spin{3};
    static constexpr std::chrono::microseconds longest_sleep{500};

    Clock::time_point start_;
};

}  // namespace ddprun::nccl
