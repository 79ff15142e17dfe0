// SPDX-License-Identifier: Apache-2.0
#include "agent/process/read_topology.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/whole_number.hpp"

#include <climits>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

namespace ddprun::agent {
namespace {

namespace fs = std::filesystem;

/// Files of /sys report no size.
std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    std::string text(limits::max_machine_file_bytes, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    while (text.ends_with('\n'))
        text.pop_back();
    return text;
}

std::optional<int> number_in(const fs::path& path) {
    return whole_number<int>(text_of(path));
}

CpuList list_in(const fs::path& path) {
    return parse_cpu_list(text_of(path)).value_or(CpuList{});
}

/// "node3" -> 3
std::optional<int> number_behind(std::string_view word, const std::string& name) {
    if (!name.starts_with(word)) return std::nullopt;
    const auto digits = std::string_view{name}.substr(word.size());
    const auto list = parse_cpu_list(digits);
    return list && list->size() == 1 ? std::optional{list->front()} : std::nullopt;
}

std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry{folder, error}, end; !error && entry != end;
         entry.increment(error))
        names.push_back(entry->path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

/// The node of each CPU. A kernel without NUMA has no such folder, and every CPU is on node 0.
std::map<int, int> nodes_of_cpus(const fs::path& system) {
    std::map<int, int> nodes;
    for (const auto& name : names_in(system / "node"))
        if (const auto node = number_behind("node", name))
            for (const int cpu : list_in(system / "node" / name / "cpulist"))
                nodes[cpu] = *node;
    return nodes;
}

/// The first of the CPUs that share the largest data cache.
std::optional<int> cache_of(const fs::path& cpu) {
    std::optional<int> first;
    int highest = 0;
    for (const auto& name : names_in(cpu / "cache")) {
        if (!number_behind("index", name)) continue;
        const auto cache = cpu / "cache" / name;
        const auto type = text_of(cache / "type");
        const auto level = number_in(cache / "level").value_or(0);
        if ((type != "Unified" && type != "Data") || level <= highest) continue;
        const auto shared = list_in(cache / "shared_cpu_list");
        if (shared.empty()) continue;
        highest = level;
        first = shared.front();
    }
    return first;
}

Cpu read_cpu(const fs::path& system, int number, const std::map<int, int>& nodes) {
    const auto folder = system / "cpu" / ("cpu" + std::to_string(number));
    Cpu cpu{number, 0, 0, number, cache_of(folder)};
    if (const auto node = nodes.find(number); node != nodes.end()) cpu.node = node->second;
    // Some virtual machines report -1, which means one socket.
    cpu.socket = std::max(0, number_in(folder / "topology/physical_package_id").value_or(0));
    const auto threads = list_in(folder / "topology/thread_siblings_list");
    if (!threads.empty()) cpu.core = threads.front();
    return cpu;
}

/// "GPU UUID: \t GPU-5b3c…"
std::string uuid_in(const std::string& information) {
    constexpr std::string_view label = "GPU UUID:";
    const auto at = information.find(label);
    if (at == std::string::npos) return "";
    const auto first = information.find_first_not_of(" \t", at + label.size());
    if (first == std::string::npos) return "";
    return information.substr(first, information.find_first_of(" \t\n", first) - first);
}

/// Sorted by address: the order of CUDA_DEVICE_ORDER=PCI_BUS_ID. CUDA's default order puts faster
/// devices first, which is the same if all are of one kind.
std::vector<Gpu> read_gpus(const fs::path& root) {
    const auto folder = root / "proc/driver/nvidia/gpus";
    std::vector<Gpu> gpus;
    for (const auto& address : names_in(folder)) {
        Gpu gpu{address, uuid_in(text_of(folder / address / "information")), std::nullopt};
        const auto node = number_in(root / "sys/bus/pci/devices" / address / "numa_node");
        if (node && *node >= 0) gpu.node = node;
        gpus.push_back(std::move(gpu));
    }
    return gpus;
}

}  // namespace

Topology read_topology(const CpuList& allowed, const fs::path& root) {
    const auto system = root / "sys/devices/system";
    const auto nodes = nodes_of_cpus(system);
    Topology machine;
    for (const int number : list_in(system / "cpu/online"))
        machine.cpus.push_back(read_cpu(system, number, nodes));
    machine.allowed = allowed;
    machine.gpus = read_gpus(root);
    return machine;
}

CpuList allowed_cpus() {
    // The kernel refuses a mask shorter than its own, whose size is unknown.
    std::vector<unsigned long> mask((limits::max_cpu_number + 1) / (sizeof(long) * CHAR_BIT));
    const auto size =
        ::syscall(SYS_sched_getaffinity, 0, mask.size() * sizeof(unsigned long), mask.data());
    CpuList allowed;
    for (long bit = 0; bit < size * CHAR_BIT; ++bit) {
        const auto word = mask[static_cast<std::size_t>(bit) / (sizeof(long) * CHAR_BIT)];
        if ((word >> (static_cast<std::size_t>(bit) % (sizeof(long) * CHAR_BIT)) & 1UL) != 0)
            allowed.push_back(static_cast<int>(bit));
    }
    return allowed;
}

}  // namespace ddprun::agent
