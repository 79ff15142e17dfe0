// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The properties of the machine that matter for binding workers to CPUs. A value:
/// read_topology.hpp reads it from /sys and /proc, tests write it by hand. GPUs are named by
/// numbers or by UUIDs ("GPU-...", "MIG-...").
namespace ddprun::agent {

/// Numbers of CPUs or of NUMA nodes, ascending, each once.
using CpuList = std::vector<int>;

/// "0-3,8,10-11", as the kernel writes lists under /sys; blanks around it and an empty list are
/// allowed. None for any other text, or when a number is too large for any machine.
std::optional<CpuList> parse_cpu_list(std::string_view text);

std::string describe(const CpuList& list);

bool contains(const CpuList& list, int number);

/// The numbers in both lists.
CpuList common(const CpuList& left, const CpuList& right);

/// A logical CPU that is online.
struct Cpu {
    int number = 0;
    int node = 0;
    /// Physical package.
    int socket = 0;
    /// A physical core is represented by the lowest number among its threads.
    int core = 0;
    /// CPUs that share the largest cache, represented in the same way; none when the machine does
    /// not report it.
    std::optional<int> cache;

    bool operator==(const Cpu&) const = default;
};

struct Gpu {
    /// "0000:1b:00.0"
    std::string pci_address;
    /// "GPU-5b3c…"
    std::string uuid;
    /// None when the firmware does not report it.
    std::optional<int> node;

    bool operator==(const Gpu&) const = default;
};

struct Topology {
    /// By number.
    std::vector<Cpu> cpus;
    /// The CPUs that this process may use: its affinity mask, possibly narrowed by a cpuset, Slurm
    /// or taskset.
    CpuList allowed;
    /// In the order in which a program with access to all of them counts them.
    std::vector<Gpu> gpus;

    bool operator==(const Topology&) const = default;
};

/// The variable with the list of GPUs: HIP_VISIBLE_DEVICES if it has a value, as for ROCm and
/// torch, else CUDA_VISIBLE_DEVICES.
const char* visible_variable(const std::map<std::string, std::string>& environment);

/// The entries that CUDA would use of a CUDA_VISIBLE_DEVICES on a machine with `gpu_count` GPUs:
/// the list ends before the first invalid entry; an entry given twice makes it empty. UUIDs are
/// assumed to exist. MIG devices are parts of a GPU, so there may be more of them than GPUs.
std::vector<std::string> visible_devices(std::string_view variable, int gpu_count);

bool is_device_uuid(std::string_view entry);
bool names_twice(std::vector<std::string> devices);

/// The GPUs that a program with this CUDA_VISIBLE_DEVICES counts as 0, 1, …; none when the variable
/// names one that cannot be located: a MIG device by its own UUID.
std::optional<std::vector<Gpu>> visible_gpus(
    const std::vector<Gpu>& all, const std::optional<std::string>& variable);

}  // namespace ddprun::agent
