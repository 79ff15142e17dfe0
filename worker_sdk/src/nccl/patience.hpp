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

/// Between two questions: at first almost nothing, later up to half a millisecond.
class Pause {
public:
    void take() {
        if (++taken_ < spins) {
            ::sched_yield();
            return;
        }
        std::this_thread::sleep_for(sleep_);
        sleep_ = std::min(sleep_ * 2, longest);
    }

private:
    static constexpr int spins = 200;
    static constexpr std::chrono::microseconds longest{500};

    int taken_ = 0;
    std::chrono::microseconds sleep_{20};
};

}  // namespace ddprun::nccl
