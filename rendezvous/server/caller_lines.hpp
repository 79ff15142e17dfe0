// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ddprun::server {

/// Limits the log lines about callers and their jobs to a burst, and to a number per second. Counts
/// the lines that are left out. Pure.
class CallerLines {
public:
    /// True: log it.
    bool take(Instant now) {
        constexpr double most = limits::max_caller_lines_at_once;
        if (now > filled_at_) {
            left_ = std::min(
                most, left_ + in_seconds(now - filled_at_) * limits::caller_lines_per_second);
            filled_at_ = now;
        }
        if (left_ < 1) {
            ++left_out_;
            return false;
        }
        left_ -= 1;
        return true;
    }
    /// The number of lines left out since the last call.
    std::uint64_t take_left_out() { return std::exchange(left_out_, 0); }

private:
    double left_ = limits::max_caller_lines_at_once;
    Instant filled_at_{};
    std::uint64_t left_out_ = 0;
};

}  // namespace ddprun::server
