// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/topology.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Which CPUs each worker of this node may run on (--numa-binding): torchrun's four modes, decided
/// from a Topology. Pure; process/spawn.hpp applies it.
namespace ddprun::agent {

enum class BindingMode {
    /// All CPUs of the worker's NUMA node.
    node,
    /// All CPUs of all NUMA nodes of that node's socket.
    socket,
    /// The node's physical cores divided among those whose node it is, the first get what is left
    /// over.
    exclusive,
    /// The CPUs that share one largest cache, another for each worker as far as there are enough.
    core_complex,
};

std::optional<BindingMode> parse_binding_mode(std::string_view name);
std::string_view describe(BindingMode mode);

struct CpuBinding {
    /// Empty: the worker is not bound.
    CpuList cpus;
    /// The NUMA node its memory should come from; nothing when the CPUs are on several.
    std::optional<int> memory_node;

    bool operator==(const CpuBinding&) const = default;
};

struct BindingPlan {
    /// By local rank.
    std::vector<CpuBinding> workers;
    /// By what the workers were placed: "the GPU of their local rank", or how else and why.
    std::string placed_by;
    /// What could not be done as asked, one sentence each.
    std::vector<std::string> problems;
};

/// A worker's NUMA node is that of the GPU whose index is its local rank. Where there are no GPUs
/// (or where their nodes are unknown) the workers are spread evenly over the nodes that have CPUs
/// for us, in blocks: neighbours in rank are neighbours in the machine.
///
/// Only CPUs in `machine.allowed` are given. What is impossible is not done and becomes a problem:
/// the job runs all the same. `gpus` are those the workers will see.
BindingPlan plan_binding(
    BindingMode mode,
    const Topology& machine,
    const std::optional<std::vector<Gpu>>& gpus,
    int worker_count);

}  // namespace ddprun::agent
