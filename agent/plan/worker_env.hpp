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

/// What a worker runs, and what it is given: its environment and its arguments. Names, spellings
/// and values are torchrun's, exactly, with two differences: the restart count is the job's, not
/// this node's, and the error file is not created beforehand.
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
    /// Standard input is a terminal: Ctrl-C is for the rank.
    bool has_terminal = false;

    bool operator==(const Attachment&) const = default;
};

/// What every worker of this node runs, as the user asked for it: resolved by the launcher, turned
/// into one process per rank by the functions below and supervise/.
struct WorkerSpec {
    /// Program found and executable at launch time (absolute or as typed with a slash).
    std::string program;
    /// argv as it will be given, argv[0] included. `${local_rank}` and friends are not expanded
    /// yet.
    std::vector<std::string> arguments;
    /// What the workers inherit: the launcher's environment with its own changes (OMP_NUM_THREADS).
    std::map<std::string, std::string> environment;
    int nproc = 1;
    std::string role = "default";
    /// CPUs by local rank (--numa-binding); a worker that is not in it is not bound.
    std::vector<CpuBinding> bindings;
    /// Each worker sees one GPU only and takes it for its first: LOCAL_RANK is 0, and
    /// CUDA_VISIBLE_DEVICES (and HIP_VISIBLE_DEVICES where it has a value) one entry.
    bool has_virtual_local_rank = false;
    /// Why the launcher chose this Python; empty for a program.
    std::string python_origin;
    std::optional<Wrapper> wrapper;
    /// Absent: every worker inherits standard input.
    std::optional<Attachment> attachment;
    /// With it Python runs the script, so that the workers can be parked (--warm); empty: Python
    /// alone.
    std::string bootstrap = {};

    bool operator==(const WorkerSpec&) const = default;
};

/// The program's name for the user: the script or module that an interpreter runs, else the
/// program.
std::string entrypoint_name(const WorkerSpec& spec);

/// Whether an interpreter of Python that the launcher chose runs it.
bool is_run_by_python(const WorkerSpec& spec);

/// Everything about one round on one node that workers are given.
struct RoundPlan {
    control::Assignment assignment;
    std::string run_id;
    std::string incarnation;
    Nonce nonce;
    /// What `temporary_error_folder` is named after.
    Nonce error_folder;
    /// Numeric, where other nodes reach this one.
    std::string node_addr;
    /// The interface with that address, where Gloo would choose one that no other node reaches.
    std::string gloo_interface = {};
    /// Where this node's workers reach the round's store, if not where it is.
    std::optional<Endpoint> local_store = std::nullopt;
    int max_restarts = 0;
    bool shares_store = true;
    /// Name of this machine, for people.
    std::string host;
    LogFolder logs;
    /// What the `latest` link points to; empty: none.
    std::string latest_logs;
    /// Between the announcement of a stop and SIGKILL.
    Duration grace{};
    /// By local rank: where the worker gets its page, and by which token. Empty: nowhere.
    std::vector<std::string> channels = {};

    bool operator==(const RoundPlan&) const = default;
};

/// The whole environment of one worker as "NAME=value", sorted by name: what was inherited, under
/// what we set.
std::vector<std::string> worker_environment(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// The local rank that has standard input; empty: a rank of another node.
std::optional<int> attached_local_rank(const WorkerSpec& spec, const RoundPlan& plan);

/// What is executed for one worker: the program, or the wrapper around it.
const std::string& worker_program(const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// argv of one worker, behind the wrapper's where it has one: every argument after the program's
/// name goes through torchrun's template: `$local_rank` and `${local_rank}` become the number, `$$`
/// becomes `$`, any other `$` stays; but `${rank}` and `${group_rank}` are known too.
std::vector<std::string> worker_arguments(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// argv of a process that waits for a place of this local rank. Requires: there is a bootstrap.
std::vector<std::string> parked_arguments(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank);
/// The environment of a worker without what may differ in another round, or for another rank.
std::vector<std::string> parked_environment(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank);
/// What it is without.
std::vector<std::string> identity_variables();

/// What a worker with a virtual local rank sees as its only GPU: its entry of the list that the
/// node was given, or its number when there is none.
std::string own_device(const WorkerSpec& spec, int local_rank);

/// TORCHELASTIC_ERROR_FILE: beside the worker's log files, where it stays; without those in a
/// folder of its own in the TMPDIR that the worker sees, else /tmp, and removed after the round.
std::string error_file_path(const WorkerSpec& spec, const RoundPlan& plan, int local_rank);

/// Where those are that are removed after the round: no other user may look or write there, and
/// none can guess its name before it is made.
std::string temporary_error_folder(const WorkerSpec& spec, const RoundPlan& plan);
/// What their paths begin with; the local rank and ".json" follow.
std::string temporary_error_file_stem(const WorkerSpec& spec, const RoundPlan& plan);

}  // namespace ddprun::agent
