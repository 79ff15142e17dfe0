// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/departure.hpp"

#include <csignal>

namespace ddprun::agent {

Departure::Step Departure::finished(const Facts& facts) {
    const bool was_idle = phase_ == Phase::running_with_idle_server;
    phase_ = Phase::serving;
    // If the job goes on, an elected server that waits for the other nodes only delays them.
    const bool hands_over = is_elected_ && !facts.is_job_over;
    // An elected server may have become idle at the end of an earlier term as leader, so its
    // idleness proves nothing.
    const bool has_no_agent = was_idle && !is_elected_;
    if (hands_over || has_no_agent) return release();
    if (facts.is_hosting) {
        if (facts.is_successor) phase_ = Phase::succeeding;
        return Step::wait_for_nodes;
    }
    if (!facts.votes) return release();
    phase_ = Phase::voting;
    return Step::wait_for_release;
}

Departure::Step Departure::server_idle() {
    // Nodes that look for this server, or for that of another node, are not in it yet.
    if (phase_ == Phase::voting || phase_ == Phase::succeeding) return Step::none;
    if (is_finished()) return release();
    phase_ = Phase::running_with_idle_server;
    return Step::none;
}

Departure::Step Departure::elected() {
    if (phase_ != Phase::voting) return Step::none;
    phase_ = Phase::succeeding;
    return Step::wait_for_nodes;
}

// Nodes that have no result need the server, but the process is one voter of several.
Departure::Step Departure::signalled(int signal) const {
    const bool leaves = is_finished() && (signal == SIGINT || phase_ == Phase::voting);
    return leaves ? Step::leave : Step::none;
}

Departure::Step Departure::release() {
    if (phase_ == Phase::releasing) return Step::none;
    phase_ = Phase::releasing;
    return is_elected_ ? Step::release_server : Step::leave;
}

}  // namespace ddprun::agent
