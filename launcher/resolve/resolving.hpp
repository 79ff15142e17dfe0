// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/rdzv_conf.hpp"
#include "launcher/resolve/job_spec.hpp"
#include "launcher/resolve/kubernetes.hpp"
#include "launcher/resolve/slurm.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The input and result of the steps of `resolve`. Each step fills its part of `spec`; the first
/// failure ends `resolve`.
struct Resolving {
    const Options& options;
    const SystemInfo& system;
    JobSpec spec;
    /// The parsed --rdzv-conf, once its step is done, and its origin.
    RdzvConf conf;
    std::string conf_origin;
    /// The Slurm step of several tasks that started this process, unless the job is standalone.
    std::optional<SlurmStep> slurm;
    /// The pod of an Indexed Job in which this process runs, unless the job is standalone.
    std::optional<IndexedPod> pod;

    void note(log::Level level, std::string event, std::string reason);
    /// Requires: `spec.environment` holds the inherited variables.
    void change_environment(
        const std::string& name, const std::string& value, const std::string& why);
};

/// The origin of a value that was not given.
inline const std::string by_default = "default";

/// "flag: 'what was given': what is accepted", for exit code 2.
Failure usage(const std::string& origin, const std::string& given, const std::string& accepted);

/// The given length of time, which has to be within these limits.
Result<Duration> duration_between(
    const Given& given, Duration shortest, Duration longest = Duration::max());

/// Reads a whole number within these bounds, or returns the error.
Result<int> number_between(const Given& given, int least, int most);

/// The value given for this option, or `otherwise`.
Given given_or(const Options& options, std::string_view name, const std::string& otherwise);

// ---- the steps, in the order of `resolve` (job_spec.cpp) ----------------------------------------

/// Fills `slurm`, `pod` and `nodes`. A Slurm step that starts several agents per node is refused
/// unless the options request it.
Result<> resolve_nodes(Resolving& job);

/// Narrows `nodes` to the multiples of --node-unit. Part of `resolve_nodes`.
Result<> use_node_unit(Resolving& job);

/// Fills the node's topology: the switch that ranks are ordered by.
Result<> resolve_topology(Resolving& job);

/// Fills nproc and has_virtual_local_rank; --devices becomes CUDA_VISIBLE_DEVICES, and
/// HIP_VISIBLE_DEVICES where that has a value.
Result<> resolve_worker_count(Resolving& job);

/// Fills command: program, arguments, interpreter.
Result<> resolve_command(Resolving& job);

/// Fills role, and the variables that ddprun sets for workers. Requires: nproc is resolved.
Result<> resolve_worker_environment(Resolving& job);

/// Fills binding. Runs after the environment, which decides the GPU of each worker.
Result<> resolve_cpu_binding(Resolving& job);

/// Where the nodes of a job find each other, under which name, and in which order. Which of
/// torchrun's two kinds of rendezvous is meant when few options are given:
/// docs/rendezvous-choice.md. Fills endpoint, is_static, is_host, node_rank, run_id; may narrow
/// `nodes`. Requires: nodes and --rdzv-conf are resolved.
Result<> resolve_rendezvous(Resolving& job);
/// Fills failover, and election where nodes vote. Requires: the rendezvous and the lease are
/// resolved.
Result<> resolve_failover(Resolving& job);

/// Fills local_addr and ports: the address of this node for other nodes, and its listening ports.
Result<> resolve_network(Resolving& job);
/// Runs after the endpoint: with a loopback endpoint all nodes are on this machine.
Result<> resolve_own_name(Resolving& job);

/// Fills secret; removes its variable, and that of etcd's password, from the workers' environment.
/// Requires: nodes are resolved.
Result<> resolve_secret(Resolving& job);
/// Fills store_access. Requires: the secret and the store's owner are resolved.
Result<> resolve_store_access(Resolving& job);

/// Fills join_timeout, last_call_timeout, lease and grace. Requires: --rdzv-conf is resolved.
Result<> resolve_time_limits(Resolving& job);
/// Requires: time limits and attachment are resolved.
Result<> resolve_deadline(Resolving& job);

/// Fills attachment; suspends the time limits that were not given. Requires: nodes, nproc and grace
/// are resolved.
Result<> resolve_attachment(Resolving& job);

/// Fills wrapper; its program is searched like that of the workers.
Result<> resolve_wrapper(Resolving& job);

/// Fills is_warm. Requires: command and wrapper are resolved.
Result<> resolve_warm(Resolving& job);

/// Options of torchrun that configure its Python implementation. They are checked as torchrun
/// checks them, so that the same mistakes are errors; each causes one sentence about what happens
/// instead.
Result<> resolve_torch_options(Resolving& job);

}  // namespace ddprun::launcher
