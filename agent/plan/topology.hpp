// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/cpu_list.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The machine as far as it matters for binding workers to its CPUs. A value: read_topology.hpp
/// reads it from /sys and /proc, tests write it down.
namespace ddprun::agent {

/// A logical CPU that is online.
struct Cpu {
    int number = 0;
    int node = 0;
    /// Physical package.
    int socket = 0;
    /// The lowest number among the threads of its physical core stands for the core.
    int core = 0;
    /// The same for what shares its largest cache; nothing where the machine does not report it.
    std::optional<int> cache;

    bool operator==(const Cpu&) const = default;
};

struct Gpu {
    /// "0000:1b:00.0"
    std::string pci_address;
    /// "GPU-5b3c…"
    std::string uuid;
    /// Nothing where the firmware does not report it.
    std::optional<int> node;

    bool operator==(const Gpu&) const = default;
};

struct Topology {
    /// By number.
    std::vector<Cpu> cpus;
    /// What this process may use: its affinity mask, which a cpuset, Slurm or taskset has narrowed.
    CpuList allowed;
    /// In the order in which a program counts them when it sees all.
    std::vector<Gpu> gpus;

    bool operator==(const Topology&) const = default;
};

/// The GPUs that a program with this CUDA_VISIBLE_DEVICES (visible_devices.hpp) counts as 0, 1, …;
/// nothing when the variable names one that we cannot place: a MIG device by its own UUID.
std::optional<std::vector<Gpu>> visible_gpus(
    const std::vector<Gpu>& all, const std::optional<std::string>& variable);

}  // namespace ddprun::agent
