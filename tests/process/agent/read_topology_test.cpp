// SPDX-License-Identifier: Apache-2.0
#include "agent/process/read_topology.hpp"

#include "tests/process/support/temp_dir.hpp"
#include "tests/support/machines.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

namespace fs = std::filesystem;

/// Small, because each part becomes files: two sockets with two nodes each, two caches per node,
/// two threads per core.
constexpr std::string_view two_nodes_per_socket = R"(
cpus 0-1,16-17 node 0 socket 0 threads 2
cpus 2-3,18-19 node 0 socket 0 threads 2
cpus 4-5,20-21 node 1 socket 0 threads 2
cpus 6-7,22-23 node 1 socket 0 threads 2
cpus 8-9,24-25 node 2 socket 1 threads 2
cpus 10-11,26-27 node 2 socket 1 threads 2
cpus 12-13,28-29 node 3 socket 1 threads 2
cpus 14-15,30-31 node 3 socket 1 threads 2
gpu 0000:01:00.0 node 1
gpu 0000:21:00.0 node 3
)";

/// A machine as files, the way Linux shows it.
class MachineFiles {
public:
    explicit MachineFiles(const Topology& machine) : machine_(machine) {
        std::map<int, CpuList> nodes;
        CpuList online;
        for (const auto& cpu : machine.cpus) {
            online.push_back(cpu.number);
            nodes[cpu.node].push_back(cpu.number);
            add(cpu);
        }
        write("sys/devices/system/cpu/online", describe(online));
        for (const auto& [node, cpus] : nodes)
            write(
                "sys/devices/system/node/node" + std::to_string(node) + "/cpulist", describe(cpus));
        write("sys/devices/system/node/online", "0");
        for (const auto& gpu : machine.gpus)
            add(gpu);
    }

    const fs::path& root() const { return dir_.path(); }

    void write(const std::string& path, const std::string& text) {
        fs::create_directories((dir_.path() / path).parent_path());
        dir_.write(path, text + "\n");
    }

private:
    CpuList those_with(int Cpu::*part, int value) const {
        CpuList list;
        for (const auto& cpu : machine_.cpus)
            if (cpu.*part == value) list.push_back(cpu.number);
        return list;
    }

    CpuList sharing(std::optional<int> cache) const {
        CpuList list;
        for (const auto& cpu : machine_.cpus)
            if (cpu.cache == cache) list.push_back(cpu.number);
        return list;
    }

    void add(const Cpu& cpu) {
        const auto folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu.number) + "/";
        const auto threads = describe(those_with(&Cpu::core, cpu.core));
        write(folder + "topology/physical_package_id", std::to_string(cpu.socket));
        write(folder + "topology/thread_siblings_list", threads);
        const auto cache = [&](int index, int level, const char* type, const std::string& shared) {
            const auto place = folder + "cache/index" + std::to_string(index) + "/";
            write(place + "level", std::to_string(level));
            write(place + "type", type);
            write(place + "shared_cpu_list", shared);
        };
        if (cpu.cache) cache(3, 3, "Unified", describe(sharing(cpu.cache)));
        // Other files exist for one CPU only, since thousands of files take long.
        if (cpu.number > 0) return;
        cache(0, 1, "Data", threads);
        cache(1, 1, "Instruction", threads);
        cache(2, 2, "Unified", threads);
        write(folder + "cache/uevent", "");
    }

    void add(const Gpu& gpu) {
        write(
            "proc/driver/nvidia/gpus/" + gpu.pci_address + "/information",
            "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t " + gpu.uuid +
                "\nVideo BIOS: \t 96.00.74.00.01\n");
        write(
            "sys/bus/pci/devices/" + gpu.pci_address + "/numa_node",
            std::to_string(gpu.node.value_or(-1)));
    }

    TempDir dir_;
    Topology machine_;
};

}  // namespace

TEST_CASE("a machine is read from the kernel's files as it is") {
    for (const auto description : {two_nodes_per_socket, some_cpus_offline, virtual_machine}) {
        CAPTURE(description);
        const auto written = machine(description);
        const MachineFiles files(written);

        CHECK(read_topology(written.allowed, files.root()) == written);
    }
}

TEST_CASE("a kernel without NUMA and a machine without caches have one node") {
    MachineFiles files(machine("cpus 0-1 node 0 socket 0 threads 1"));
    fs::remove_all(files.root() / "sys/devices/system/node");
    fs::remove_all(files.root() / "sys/devices/system/cpu/cpu0/cache");
    files.write("sys/devices/system/cpu/cpu1/topology/physical_package_id", "-1");

    const auto read = read_topology({0, 1}, files.root());

    REQUIRE(read.cpus.size() == 2);
    CHECK(read.cpus[0] == Cpu{0, 0, 0, 0, std::nullopt});
    CHECK(read.cpus[1] == Cpu{1, 0, 0, 1, 0});
}

TEST_CASE("without the kernel's files, or with nonsense in them, a machine has no CPUs") {
    const TempDir empty;
    CHECK(read_topology({0}, empty.path()).cpus.empty());

    MachineFiles files(machine(virtual_machine));
    files.write("sys/devices/system/cpu/online", "0-99999999");
    CHECK(read_topology({0}, files.root()).cpus.empty());
}

TEST_CASE("this machine has CPUs, and we may use some of them") {
    const auto read = read_topology(allowed_cpus());

    CHECK_FALSE(read.cpus.empty());
    CHECK_FALSE(read.allowed.empty());
}
