// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/cpu_binding.hpp"
#include "launcher/grammar/options.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// Reads the machine; called only if a binding is requested.
using ReadTopology = std::function<agent::Topology()>;

/// The effect of --numa-binding on this machine; without the option nothing is bound and nothing
/// read.
struct CpuBindingChoice {
    /// "node", "socket", …; empty: none.
    std::string mode;
    std::string origin;
    agent::BindingPlan plan;
};

/// `environment` is the workers' environment: its CUDA_VISIBLE_DEVICES (HIP_VISIBLE_DEVICES)
/// decides which GPU a local rank uses.
Result<CpuBindingChoice> choose_cpu_binding(
    const Options& options,
    const Environment& environment,
    int worker_count,
    const ReadTopology& read_topology);

/// For --explain: a line for each worker, "0: CPUs 0-13,112-125, memory of node 0".
std::vector<std::string> describe(const agent::BindingPlan& plan);

}  // namespace ddprun::launcher
