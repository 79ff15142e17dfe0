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
    /// The physical cores of the node, divided among the workers of that node; the first workers
    /// get the remainder.
    exclusive,
    /// The CPUs that share one largest cache, a different one for each worker as long as there are
    /// enough.
    core_complex,
};

std::optional<BindingMode> parse_binding_mode(std::string_view name);
std::string_view describe(BindingMode mode);

struct CpuBinding {
    /// Empty: the worker is not bound.
    CpuList cpus;
    /// The NUMA node for its memory; none when its CPUs are on several nodes.
    std::optional<int> memory_node;

    bool operator==(const CpuBinding&) const = default;
};

struct BindingPlan {
    /// By local rank.
    std::vector<CpuBinding> workers;
    /// How the workers were placed: "the GPU of their local rank", or another way with its reason.
    std::string placed_by;
    /// The requests that could not be fulfilled, one sentence each.
    std::vector<std::string> problems;
};

/// A worker's NUMA node is that of the GPU whose index is its local rank. Without GPUs (or if their
/// nodes are unknown) the workers are spread evenly over the nodes with allowed CPUs, in blocks:
/// workers with neighbouring ranks are on neighbouring CPUs.
///
/// Only CPUs in `machine.allowed` are assigned. What is impossible is left out and listed as a
/// problem; the job still runs. `gpus` are the GPUs that the workers will see.
BindingPlan plan_binding(
    BindingMode mode,
    const Topology& machine,
    const std::optional<std::vector<Gpu>>& gpus,
    int worker_count);

}  // namespace ddprun::agent
