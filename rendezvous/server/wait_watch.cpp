// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/wait_watch.hpp"

namespace ddprun::server {

WaitWatch::Step WaitWatch::look(const std::optional<Longest>& longest, Instant now) {
    if (!longest || now - longest->since < limits_.long_wait) {
        if (!reported_) return Step::none;
        reported_.reset();
        return Step::report_end;
    }
    const bool is_known = reported_ && reported_->key == longest->key;
    if (is_known && now - reported_->at < limits_.report_interval) return Step::none;
    reported_ = Reported{longest->key, now};
    return Step::report;
}

bool WaitWatch::cancelled(Duration age, Instant now) {
    if (age < limits_.shortest_timed_out) return false;
    if (timeout_reported_at_ && now - *timeout_reported_at_ < limits_.check_interval) return false;
    timeout_reported_at_ = now;
    return true;
}

}  // namespace ddprun::server
