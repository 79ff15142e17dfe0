// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

/// How the job ended, from the data of one node: a value that failure_summary, report_json and
/// torchrun_table put into words.
struct JobReport {
    control::Outcome outcome = control::Outcome::succeeded;
    int exit_code = 0;
    /// Set with a `result` of the server.
    std::optional<control::Cause> root_cause;
    /// Set without such a result: why this node ended, as a sentence.
    std::string reason;
    /// Advice for the user; may be empty.
    std::string next_step;
    std::string run_id;
    std::string host;
    /// The script or program, without its interpreter.
    std::string program;
    /// This node's place in the last round; none: it never was in one.
    std::optional<int> group_rank;
    int world_size = 0;
    int round = -1;
    int restarts = 0;
    int max_restarts = 0;
    /// Workers that failed in the last round but were not the root cause: all of this node's, then
    /// the first of each other node, each in the order of their ends.
    std::vector<control::EndedWorker> secondary_failures;
    /// Workers of this node that ended by ddprun's signal after the first failure.
    std::vector<control::EndedWorker> stopped;
    /// Set with a `result` of a server that measures it.
    std::optional<control::Goodput> goodput;

    bool operator==(const JobReport&) const = default;
};

/// True: the server has decided the end for every node. False: possibly only this node has ended.
inline bool is_over(const JobReport& report) {
    return report.root_cause.has_value() || report.outcome == control::Outcome::succeeded;
}

}  // namespace ddprun::agent
