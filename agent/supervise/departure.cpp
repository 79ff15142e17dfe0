// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/departure.hpp"

namespace ddprun::agent {

Departure::Step Departure::finished(bool is_hosting, bool is_job_over) {
    const bool was_idle = phase_ == Phase::running_with_idle_server;
    phase_ = Phase::serving;
    // If the job goes on, an elected server that waits for the other nodes only delays them.
    const bool hands_over = is_elected_ && !is_job_over;
    // An elected server may have become idle at the end of an earlier term as leader, so its
    // idleness proves nothing.
    const bool has_no_agent = was_idle && !is_elected_;
    if (!is_hosting || hands_over || has_no_agent) return release();
    return Step::wait_for_nodes;
}

Departure::Step Departure::server_idle() {
    if (is_finished()) return release();
    phase_ = Phase::running_with_idle_server;
    return Step::none;
}

Departure::Step Departure::release() {
    if (phase_ == Phase::releasing) return Step::none;
    phase_ = Phase::releasing;
    return is_elected_ ? Step::release_server : Step::leave;
}

}  // namespace ddprun::agent
