// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/cpu_binding.hpp"
#include "agent/plan/output_plan.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// A worker's command, environment and arguments. Names, spellings and values are exactly
/// torchrun's, with two differences: the restart count is the job's, not this node's, and the error
/// file is not created beforehand.
namespace ddprun::agent {

/// A command that is put before the command of some ranks: a debugger, a profiler (--wrap).
struct Wrapper {
    std::vector<RankRange> ranks;
    /// Found and executable at launch time.
    std::string program;
    /// argv, argv[0] included: `%r` becomes the rank, `%%` becomes `%`.
    std::vector<std::string> arguments;

    bool operator==(const Wrapper&) const = default;
};

/// The rank of the job that has ddprun's standard input; the other workers have /dev/null
/// (--attach).
struct Attachment {
    int rank = 0;
    /// Standard input is a terminal: Ctrl-C goes to the rank.
    bool has_terminal = false;

    bool operator==(const Attachment&) const = default;
};

/// What every worker of this node runs, as requested by the user: resolved by the launcher, turned
/// into one process per rank by the functions below and supervise/.
struct WorkerSpec {
    /// Program found and executable at launch time (absolute or as typed with a slash).
    std::string program;
    /// argv as it will be passed, argv[0] included. `${local_rank}` and similar names are not
    /// expanded yet.
    std::vector<std::string> arguments;
    /// The environment that workers inherit: the launcher's with ddprun's changes
    /// (OMP_NUM_THREADS).
    std::map<std::string, std::string> environment;
    int nproc = 1;
    std::string role = "default";
    /// CPUs by local rank (--numa-binding); a worker that is not listed is not bound.
    std::vector<CpuBinding> bindings;
    /// Each worker has access to only one GPU, as its first: LOCAL_RANK is 0, and
    /// CUDA_VISIBLE_DEVICES (and HIP_VISIBLE_DEVICES if it has a value) has one entry.
    bool has_virtual_local_rank = false;
    /// Why the launcher chose this Python; empty for a program.
    std::string python_origin;
    std::optional<Wrapper> wrapper;
    /// Absent: every worker inherits standard input.
    std::optional<Attachment> attachment;
    /// The code with which Python runs the script, so that workers can be parked (--warm); empty:
    /// Python runs the script directly.
    std::string bootstrap = {};

    bool operator==(const WorkerSpec&) const = default;
};

/// The program's name for the user: the script or module that an interpreter runs, else the program
/// itself.
std::string entrypoint_name(const WorkerSpec& spec);

/// Whether a Python interpreter that the launcher chose runs it.
bool is_run_by_python(const WorkerSpec& spec);

/// The data of one round on one node for its workers.
struct RoundPlan {
    control::Assignment assignment;
    std::string run_id;
    std::string incarnation;
    Nonce nonce;
    /// The nonce in the name of `temporary_error_folder`.
    Nonce error_folder;
    /// The numeric address of this node for other nodes.
    std::string node_addr;
    /// The interface with that address, set if Gloo would otherwise choose one that no other node
    /// can reach.
    std::string gloo_interface = {};
    /// The address of the round's store for this node's workers, if it differs from the store's own
    /// address.
    std::optional<Endpoint> local_store = std::nullopt;
    int max_restarts = 0;
    bool shares_store = true;
    /// Name of this machine, for people.
    std::string host;
    LogFolder logs;
    /// The target of the `latest` link; empty: there is none.
    std::string latest_logs;
    /// The time between the announcement of a stop and SIGKILL.
    Duration grace{};
    /// By local rank: the address and token of the worker's page. Empty: there are no pages.
    std::vector<std::string> channels = {};

    bool operator==(const RoundPlan&) const = default;
};

/// The whole environment of one worker as "NAME=value", sorted by name: the inherited variables,
/// overridden by ddprun's.
std::vector<std::string> worker_environment(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// The variables of `worker_environment` that a kept worker gets for the round: all that may differ
/// from its last one.
std::vector<std::string> changed_environment(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// The local rank that has standard input; none: that rank is on another node.
std::optional<int> attached_local_rank(const WorkerSpec& spec, const RoundPlan& plan);

/// The executed file for one worker: the program, or the wrapper around it.
const std::string& worker_program(const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// argv of one worker, after the wrapper's argv if it has one. Every argument after the program's
/// name is expanded like torchrun's template: `$local_rank` and `${local_rank}` become the number,
/// `$$` becomes `$`, any other `$` stays. In addition, `${rank}` and `${group_rank}` are expanded.
std::vector<std::string> worker_arguments(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// argv of a process that is parked for a place of this local rank. Requires: there is a bootstrap.
std::vector<std::string> parked_arguments(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank);
/// The environment of a worker without the variables that may differ in another round, or for
/// another rank.
std::vector<std::string> parked_environment(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank);
/// The variables that `parked_environment` leaves out.
std::vector<std::string> identity_variables();

/// The only GPU of a worker with a virtual local rank: its entry of the node's list, or its
/// number when there is no list.
std::string own_device(const WorkerSpec& spec, int local_rank);

/// TORCHELASTIC_ERROR_FILE: beside the worker's log files, where it stays. Without log files it is
/// in a separate folder in the worker's TMPDIR, else /tmp, and is removed after the round.
std::string error_file_path(const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// The folder of the error files that are removed after the round: no other user may read or write
/// it, or can guess its name before it is made.
std::string temporary_error_folder(const WorkerSpec& spec, const RoundPlan& plan);
/// The beginning of these files' paths; the local rank and ".json" follow.
std::string temporary_error_file_stem(const WorkerSpec& spec, const RoundPlan& plan);

}  // namespace ddprun::agent
