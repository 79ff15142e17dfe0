// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/output_plan.hpp"

#include <string>
#include <string_view>

/// The names of log files. No two rounds share one in ddprun's own layout, and what is there
/// already is only ever added to:
///
///   ddprun    DIR/RUN_INCARNATION/round-R/HOST/rank-G/stdout.log       DIR/latest -> .../round-R
///   torchrun  DIR/RUN_NODE/attempt_RESTARTS/LOCAL/stdout.log
///
/// with stderr.log and error.json beside stdout.log, and the node's filtered_stdout.log and
/// filtered_stderr.log one folder above. The incarnation makes a run id that is used again another
/// folder, the same one on all nodes of the job.
namespace ddprun::agent {

/// One round on one node, as far as names depend on it.
struct LogPlace {
    std::string run_id;
    std::string incarnation;
    /// Of this node.
    std::string nonce;
    std::string host;
    int round = 0;
    int restart_count = 0;
};

/// A round's folder on this node.
struct LogFolder {
    /// Empty: nothing is written to files.
    std::string path;
    LogLayout layout = LogLayout::ddprun;

    bool is_none() const { return path.empty(); }
    std::string of_worker(int local_rank, int rank) const;
    std::string file_of_worker(Stream stream, int local_rank, int rank) const;
    std::string filtered_file(Stream stream) const;

    bool operator==(const LogFolder&) const = default;
};

LogFolder log_folder(const OutputPlan& plan, const LogPlace& place);

/// What DIR/latest should point to, relative to DIR; empty: there is no such link.
std::string latest_link_target(const OutputPlan& plan, const LogPlace& place);

/// Any text as one name of a file: without slashes and control characters, not hidden, not long.
std::string as_file_name(std::string_view text);

}  // namespace ddprun::agent
