// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <chrono>

namespace ddprun::agent {

/// How often a voter that waits for its release looks whether the leader is lost.
inline constexpr Duration leader_watch_interval = std::chrono::seconds{1};

/// The steps after this node has reported its part of the job: a hosted server waits for the other
/// nodes, a process that votes about the leader waits for its release, an elected server is
/// released, and then the process exits.
class Departure {
public:
    enum class Step {
        none,
        /// The server goes on after the job until each agent has left or has lost its lease.
        wait_for_nodes,
        /// The process stays a voter: without it the loss of the leader could leave no majority,
        /// and nodes without a result would get none.
        wait_for_release,
        /// The server is taken out of the election. The process exits after the election's answer,
        /// or when the time limit has passed.
        release_server,
        leave,
    };

    /// `is_elected`: this node's server is a candidate of an election.
    explicit Departure(bool is_elected) : is_elected_(is_elected) {}

    struct Facts {
        bool is_hosting = false;
        /// The job's end is decided for every node, not only for this one.
        bool is_job_over = false;
        /// This process votes about the leader, and no leader has stepped down after the end.
        bool votes = false;
        /// This server was elected after the end: nodes that have no result may not have found it
        /// yet.
        bool is_successor = false;
    };

    Step finished(const Facts& facts);
    /// The hosted server has no agent and no job left.
    Step server_idle();
    /// The leader has stepped down after the end of the job.
    Step released() { return phase_ == Phase::voting ? release() : Step::none; }
    /// This node's server leads: it was elected after the end of the job.
    Step elected();
    /// The time limit of `wait_for_nodes` or `wait_for_release` has passed.
    Step waited() { return release(); }
    /// A signal that asks the process to stop.
    Step signalled(int signal) const;

    bool is_finished() const {
        return phase_ != Phase::running && phase_ != Phase::running_with_idle_server;
    }
    bool waits_for_release() const { return phase_ == Phase::voting; }

private:
    enum class Phase { running, running_with_idle_server, serving, succeeding, voting, releasing };

    Step release();

    bool is_elected_;
    Phase phase_ = Phase::running;
};

}  // namespace ddprun::agent
