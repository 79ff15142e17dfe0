// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/cpu_binding.hpp"

#include <map>
#include <string>
#include <vector>

namespace ddprun::agent {

/// What every worker of this node runs, as the user asked for it: resolved by the launcher, turned
/// into one process per rank by worker_env and supervise/.
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
    /// CUDA_VISIBLE_DEVICES one entry.
    bool has_virtual_local_rank = false;

    bool operator==(const WorkerSpec&) const = default;
};

/// The program's name for the user: the script or module that an interpreter runs, else the
/// program.
std::string entrypoint_name(const WorkerSpec& spec);

/// Whether an interpreter of Python that the launcher chose runs it.
bool is_run_by_python(const WorkerSpec& spec);

}  // namespace ddprun::agent
