// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::agent {

/// The steps after this node has reported its part of the job: a hosted server waits for the other
/// nodes, an elected server is released, and then the process exits.
class Departure {
public:
    enum class Step {
        none,
        /// The server goes on after the job until each agent has left or has lost its lease.
        wait_for_nodes,
        /// The server is taken out of the election. The process exits after the election's answer,
        /// or when the time limit has passed.
        release_server,
        leave,
    };

    /// `is_elected`: this node's server is a candidate of an election.
    explicit Departure(bool is_elected) : is_elected_(is_elected) {}

    /// `is_job_over`: the job's end is decided for every node, not only for this one.
    Step finished(bool is_hosting, bool is_job_over);
    /// The hosted server has no agent and no job left.
    Step server_idle();
    /// The time limit of `wait_for_nodes` has passed.
    Step waited() { return release(); }

    bool is_finished() const { return phase_ == Phase::serving || phase_ == Phase::releasing; }

private:
    enum class Phase { running, running_with_idle_server, serving, releasing };

    Step release();

    bool is_elected_;
    Phase phase_ = Phase::running;
};

}  // namespace ddprun::agent
