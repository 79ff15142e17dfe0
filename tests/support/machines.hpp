// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/topology.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

/// Machines as they are sold, for tests of binding. A line of CPUs says what they share:
///
///   cpus 0-7,96-103 node 1 socket 0 threads 2     the CPUs of one largest cache; with two threads
///                                                 the second half are the cores' second threads
///   gpu 0000:1b:00.0 node 1                       as the driver counts them; without a node: not
///                                                 known
///   allowed 0-3                                   affinity mask; without it every CPU
namespace ddprun::test {

/// Two sockets of 56 cores with two threads, one NUMA node each, eight GPUs.
inline constexpr std::string_view two_sockets_eight_gpus = R"(
cpus 0-55,112-167 node 0 socket 0 threads 2
cpus 56-111,168-223 node 1 socket 1 threads 2
gpu 0000:1b:00.0 node 0
gpu 0000:43:00.0 node 0
gpu 0000:52:00.0 node 0
gpu 0000:61:00.0 node 0
gpu 0000:9d:00.0 node 1
gpu 0000:c3:00.0 node 1
gpu 0000:d1:00.0 node 1
gpu 0000:df:00.0 node 1
)";

/// Two sockets of 96 cores with two threads, four NUMA nodes each, a largest cache for every eight
/// cores; the GPUs hang on every other node, the higher ones first.
inline constexpr std::string_view four_nodes_per_socket = R"(
cpus 0-7,192-199 node 0 socket 0 threads 2
cpus 8-15,200-207 node 0 socket 0 threads 2
cpus 16-23,208-215 node 0 socket 0 threads 2
cpus 24-31,216-223 node 1 socket 0 threads 2
cpus 32-39,224-231 node 1 socket 0 threads 2
cpus 40-47,232-239 node 1 socket 0 threads 2
cpus 48-55,240-247 node 2 socket 0 threads 2
cpus 56-63,248-255 node 2 socket 0 threads 2
cpus 64-71,256-263 node 2 socket 0 threads 2
cpus 72-79,264-271 node 3 socket 0 threads 2
cpus 80-87,272-279 node 3 socket 0 threads 2
cpus 88-95,280-287 node 3 socket 0 threads 2
cpus 96-103,288-295 node 4 socket 1 threads 2
cpus 104-111,296-303 node 4 socket 1 threads 2
cpus 112-119,304-311 node 4 socket 1 threads 2
cpus 120-127,312-319 node 5 socket 1 threads 2
cpus 128-135,320-327 node 5 socket 1 threads 2
cpus 136-143,328-335 node 5 socket 1 threads 2
cpus 144-151,336-343 node 6 socket 1 threads 2
cpus 152-159,344-351 node 6 socket 1 threads 2
cpus 160-167,352-359 node 6 socket 1 threads 2
cpus 168-175,360-367 node 7 socket 1 threads 2
cpus 176-183,368-375 node 7 socket 1 threads 2
cpus 184-191,376-383 node 7 socket 1 threads 2
gpu 0000:01:00.0 node 3
gpu 0000:21:00.0 node 3
gpu 0000:41:00.0 node 1
gpu 0000:61:00.0 node 1
gpu 0000:81:00.0 node 7
gpu 0000:a1:00.0 node 7
gpu 0000:c1:00.0 node 5
gpu 0000:e1:00.0 node 5
)";

/// The first machine with the second threads switched off, and one core broken on each socket.
inline constexpr std::string_view some_cpus_offline = R"(
cpus 0-2,4-55 node 0 socket 0 threads 1
cpus 56-110 node 1 socket 1 threads 1
gpu 0000:1b:00.0 node 0
gpu 0000:43:00.0 node 0
gpu 0000:9d:00.0 node 1
gpu 0000:c3:00.0 node 1
)";

/// The first machine, of which a scheduler gives this job two GPUs and eight cores on each socket.
inline constexpr std::string_view in_a_cpuset = R"(
cpus 0-55,112-167 node 0 socket 0 threads 2
cpus 56-111,168-223 node 1 socket 1 threads 2
gpu 0000:61:00.0 node 0
gpu 0000:9d:00.0 node 1
allowed 8-15,64-71,120-127,176-183
)";

/// A small virtual machine: one node, and the firmware says nothing about the GPU.
inline constexpr std::string_view virtual_machine = R"(
cpus 0-3 node 0 socket 0 threads 1
gpu 0000:00:05.0
)";

struct NamedMachine {
    std::string_view name;
    std::string_view description;
};

inline constexpr std::array all_machines{
    NamedMachine{"two_sockets_eight_gpus", two_sockets_eight_gpus},
    NamedMachine{"four_nodes_per_socket", four_nodes_per_socket},
    NamedMachine{"some_cpus_offline", some_cpus_offline},
    NamedMachine{"in_a_cpuset", in_a_cpuset},
    NamedMachine{"virtual_machine", virtual_machine},
};

inline agent::CpuList list_of(const std::string& text) {
    const auto list = agent::parse_cpu_list(text);
    if (!list) throw std::invalid_argument(text);
    return *list;
}

inline agent::Topology machine(std::string_view description) {
    agent::Topology machine;
    std::istringstream lines{std::string{description}};
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words{line};
        std::string what;
        std::string value;
        std::string word;
        words >> what >> value;
        if (what == "allowed") machine.allowed = list_of(value);
        if (what == "gpu") {
            agent::Gpu gpu{value, "GPU-of-" + value, std::nullopt};
            for (int node = 0; words >> word >> node;)
                gpu.node = node;
            machine.gpus.push_back(std::move(gpu));
        }
        if (what != "cpus") continue;
        int node = 0;
        int socket = 0;
        std::size_t threads = 1;
        words >> word >> node >> word >> socket >> word >> threads;
        const auto cpus = list_of(value);
        const auto cores = cpus.size() / threads;
        for (std::size_t i = 0; i < cpus.size(); ++i)
            machine.cpus.push_back({cpus[i], node, socket, cpus[i % cores], cpus.front()});
    }
    const auto by_number = [](const auto& a, const auto& b) { return a.number < b.number; };
    std::sort(machine.cpus.begin(), machine.cpus.end(), by_number);
    if (machine.allowed.empty())
        for (const auto& cpu : machine.cpus)
            machine.allowed.push_back(cpu.number);
    return machine;
}

}  // namespace ddprun::test
