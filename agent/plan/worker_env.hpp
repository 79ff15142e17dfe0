// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/log_layout.hpp"
#include "agent/plan/worker_spec.hpp"
#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <string>
#include <string_view>
#include <vector>

/// What a worker is given: its environment and its arguments. Names, spellings and values are
/// torchrun's, exactly, with two differences: the restart count is the job's, not this node's, and
/// the error file is not created beforehand.
namespace ddprun::agent {

/// Everything about one round on one node that workers are given.
struct RoundPlan {
    control::Assignment assignment;
    std::string run_id;
    std::string incarnation;
    Nonce nonce;
    /// Numeric, where other nodes reach this one.
    std::string node_addr;
    int max_restarts = 0;
    bool shares_store = true;
    /// Name of this machine, for people.
    std::string host;
    LogFolder logs;
    /// What the `latest` link points to; empty: none.
    std::string latest_logs;
    /// Between the announcement of a stop and SIGKILL.
    Duration grace{};

    bool operator==(const RoundPlan&) const = default;
};

/// The whole environment of one worker as "NAME=value", sorted by name: what was inherited, under
/// what we set.
std::vector<std::string> worker_environment(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// argv of one worker: every argument after the program's name goes through torchrun's template:
/// `$local_rank` and `${local_rank}` become the number, `$$` becomes `$`, any other `$` stays; but
/// `${rank}` and `${group_rank}` are known too.
std::vector<std::string> worker_arguments(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// What a worker with a virtual local rank sees as its only GPU: its entry of the list that the
/// node was given, or its number when there is none.
std::string own_device(const WorkerSpec& spec, int local_rank);

/// TORCHELASTIC_ERROR_FILE: beside the worker's log files, where it stays; without those in the
/// TMPDIR that the worker sees, else /tmp, and removed after the round.
std::string error_file_path(const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// What the paths of those that are removed after the round begin with; the local rank and ".json"
/// follow.
std::string temporary_error_file_stem(const WorkerSpec& spec, const RoundPlan& plan);

}  // namespace ddprun::agent
