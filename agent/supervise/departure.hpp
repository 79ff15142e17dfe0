// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::agent {

/// What this node still does once its part of the job is reported: a server that it hosts waits for
/// the other nodes, an elected one is released, and then the process leaves.
class Departure {
public:
    enum class Step {
        none,
        /// The server outlives the job until the last agent has left, or by its lease.
        wait_for_nodes,
        /// The election is answered, or a time limit passes, before the process leaves.
        release_server,
        leave,
    };

    /// `is_elected`: this node's server is a candidate of an election.
    explicit Departure(bool is_elected) : is_elected_(is_elected) {}

    /// `is_job_over`: decided for every node, not only this one.
    Step finished(bool is_hosting, bool is_job_over);
    /// The hosted server has no agent and no job any more.
    Step server_idle();
    /// The time limit of `wait_for_nodes`.
    Step waited() { return release(); }

    bool is_finished() const { return phase_ == Phase::serving || phase_ == Phase::releasing; }

private:
    enum class Phase { running, running_with_idle_server, serving, releasing };

    Step release();

    bool is_elected_;
    Phase phase_ = Phase::running;
};

}  // namespace ddprun::agent
