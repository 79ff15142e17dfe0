// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/restart_budget.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>

namespace ddprun::coordinator {

void RestartBudget::spend() {
    require(!is_spent(), "a spent budget is not spent again");
    ++used_;
    total_ = std::min(total_ + 1, limits::max_reported_restarts);
}

Duration RestartDelay::next(Duration ran_for) {
    if (ran_for >= longest_) next_ = shortest_;
    const auto pause = next_;
    // Does not overflow: the longest possible pause is ten years, and twice that still fits.
    next_ = std::min(2 * next_, longest_);
    return pause;
}

void LossRecord::add(Instant now) {
    while (!lost_at_.empty() && now - lost_at_.front() > limits::crash_loop_window)
        lost_at_.pop_front();
    lost_at_.push_back(now);
}

bool LossRecord::would_be_crash_loop(Instant now) const {
    const auto recent = std::count_if(lost_at_.begin(), lost_at_.end(), [&](Instant lost_at) {
        return now - lost_at <= limits::crash_loop_window;
    });
    return recent >= max_losses_;
}

}  // namespace ddprun::coordinator
