// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

/// A worker of this node that ended badly in the job's last round, but was not the first cause.
struct Consequence {
    int rank = 0;
    int local_rank = 0;
    int pid = 0;
    control::WorkerEnd end;

    bool operator==(const Consequence&) const = default;
};

/// How the job ended, as one node knows it: a value that failure_summary turns into the screen.
struct JobReport {
    control::Outcome outcome = control::Outcome::succeeded;
    int exit_code = 0;
    /// With a `result` of the server.
    std::optional<control::Cause> first_cause;
    /// Without one: what this node ended for, as a sentence.
    std::string reason;
    std::string run_id;
    std::string host;
    std::string program;
    /// This node's place in the last round; none: it never was in one.
    std::optional<int> group_rank;
    int world_size = 0;
    int round = -1;
    int restarts = 0;
    int max_restarts = 0;
    /// In the order of their ends; those that ended as they were told are not here.
    std::vector<Consequence> consequences;
    /// Workers of this node that a signal of ours ended after the first failure.
    int stopped_count = 0;

    bool operator==(const JobReport&) const = default;
};

}  // namespace ddprun::agent
