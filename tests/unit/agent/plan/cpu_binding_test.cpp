// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/cpu_binding.hpp"

#include "tests/support/machines.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

using Lines = std::vector<std::string>;

/// One line for each worker: its CPUs, then the node its memory comes from.
Lines workers(const BindingPlan& plan) {
    Lines lines;
    for (const auto& worker : plan.workers) {
        auto line = worker.cpus.empty() ? std::string{"anywhere"} : describe(worker.cpus);
        if (worker.memory_node) line += " memory " + std::to_string(*worker.memory_node);
        lines.push_back(line);
    }
    return lines;
}

BindingPlan planned(BindingMode mode, const Topology& machine, int worker_count) {
    return plan_binding(mode, machine, machine.gpus, worker_count);
}

Lines bound(BindingMode mode, std::string_view description, int worker_count) {
    const auto plan = planned(mode, machine(description), worker_count);
    CHECK(plan.problems == Lines{});
    return workers(plan);
}

Topology without_gpus(std::string_view description) {
    auto result = machine(description);
    result.gpus.clear();
    return result;
}

}  // namespace

TEST_CASE("binding modes have torchrun's names") {
    for (const std::string name : {"node", "socket", "exclusive", "core-complex"})
        CHECK(describe(*parse_binding_mode(name)) == name);
    CHECK_FALSE(parse_binding_mode("nodes"));
}

TEST_CASE("node: a worker runs on the NUMA node of its GPU") {
    CHECK(
        bound(BindingMode::node, two_sockets_eight_gpus, 8) == Lines{
                                                                   "0-55,112-167 memory 0",
                                                                   "0-55,112-167 memory 0",
                                                                   "0-55,112-167 memory 0",
                                                                   "0-55,112-167 memory 0",
                                                                   "56-111,168-223 memory 1",
                                                                   "56-111,168-223 memory 1",
                                                                   "56-111,168-223 memory 1",
                                                                   "56-111,168-223 memory 1"});
    CHECK(
        bound(BindingMode::node, four_nodes_per_socket, 3) ==
        Lines{"72-95,264-287 memory 3", "72-95,264-287 memory 3", "24-47,216-239 memory 1"});
}

TEST_CASE("socket: a worker runs on every NUMA node of its GPU's socket") {
    CHECK(
        bound(BindingMode::socket, four_nodes_per_socket, 5) ==
        Lines{"0-95,192-287", "0-95,192-287", "0-95,192-287", "0-95,192-287", "96-191,288-383"});
    CHECK(bound(BindingMode::socket, virtual_machine, 1) == Lines{"0-3 memory 0"});
}

TEST_CASE("exclusive: whole cores are divided among the GPUs of a node") {
    CHECK(
        bound(BindingMode::exclusive, two_sockets_eight_gpus, 8) == Lines{
                                                                        "0-13,112-125 memory 0",
                                                                        "14-27,126-139 memory 0",
                                                                        "28-41,140-153 memory 0",
                                                                        "42-55,154-167 memory 0",
                                                                        "56-69,168-181 memory 1",
                                                                        "70-83,182-195 memory 1",
                                                                        "84-97,196-209 memory 1",
                                                                        "98-111,210-223 memory 1"});
}

TEST_CASE("exclusive: the share of a GPU is the same however many workers there are") {
    CHECK(
        bound(BindingMode::exclusive, two_sockets_eight_gpus, 1) == Lines{"0-13,112-125 memory 0"});
}

TEST_CASE(
    "exclusive: the first GPUs get the cores that are left over, offline ones count for none") {
    CHECK(
        bound(BindingMode::exclusive, some_cpus_offline, 4) ==
        Lines{"0-2,4-28 memory 0", "29-55 memory 0", "56-83 memory 1", "84-110 memory 1"});
}

TEST_CASE("core-complex: each worker has a cache of its own while there are enough") {
    CHECK(
        bound(BindingMode::core_complex, four_nodes_per_socket, 4) ==
        Lines{
            "72-79,264-271 memory 3",
            "80-87,272-279 memory 3",
            "24-31,216-223 memory 1",
            "32-39,224-231 memory 1"});
    // One cache for each socket: all share it.
    CHECK(
        bound(BindingMode::core_complex, two_sockets_eight_gpus, 2) ==
        Lines{"0-55,112-167 memory 0", "0-55,112-167 memory 0"});
}

TEST_CASE("core-complex: the caches with most CPUs left for us come first") {
    auto narrowed = machine(four_nodes_per_socket);
    narrowed.allowed = list_of("72-73,80-91,272-279");

    CHECK(
        workers(planned(BindingMode::core_complex, narrowed, 2)) ==
        Lines{"80-87,272-279 memory 3", "88-91 memory 3"});
}

TEST_CASE("core-complex: a machine that does not report its caches has one for each node") {
    auto silent = machine(virtual_machine);
    for (auto& cpu : silent.cpus)
        cpu.cache.reset();

    CHECK(workers(planned(BindingMode::core_complex, silent, 1)) == Lines{"0-3 memory 0"});
}

TEST_CASE("only what the affinity mask leaves is divided") {
    CHECK(
        bound(BindingMode::node, in_a_cpuset, 2) ==
        Lines{"8-15,120-127 memory 0", "64-71,176-183 memory 1"});
    CHECK(
        bound(BindingMode::socket, in_a_cpuset, 2) ==
        Lines{"8-15,120-127 memory 0", "64-71,176-183 memory 1"});
    CHECK(
        bound(BindingMode::exclusive, in_a_cpuset, 2) ==
        Lines{"8-15,120-127 memory 0", "64-71,176-183 memory 1"});
}

TEST_CASE("without GPUs the workers are spread over the NUMA nodes in blocks") {
    const auto two_sockets = without_gpus(two_sockets_eight_gpus);
    CHECK(
        workers(planned(BindingMode::node, two_sockets, 4)) == Lines{
                                                                   "0-55,112-167 memory 0",
                                                                   "0-55,112-167 memory 0",
                                                                   "56-111,168-223 memory 1",
                                                                   "56-111,168-223 memory 1"});

    const auto eight_nodes = without_gpus(four_nodes_per_socket);
    CHECK(
        workers(planned(BindingMode::exclusive, eight_nodes, 2)) ==
        Lines{"0-23,192-215 memory 0", "96-119,288-311 memory 4"});
    CHECK(
        workers(planned(BindingMode::core_complex, eight_nodes, 24)).back() ==
        "184-191,376-383 memory 7");
    CHECK(planned(BindingMode::node, two_sockets, 4).problems == Lines{});
}

TEST_CASE("a NUMA node with few CPUs left for us gets few of the spread workers") {
    auto narrowed = without_gpus(two_sockets_eight_gpus);
    narrowed.allowed = list_of("0-1,56-61");

    CHECK(
        workers(planned(BindingMode::exclusive, narrowed, 4)) ==
        Lines{"0-1 memory 0", "56-57 memory 1", "58-59 memory 1", "60-61 memory 1"});
}

TEST_CASE("a machine of one NUMA node needs no word about its GPUs") {
    const auto plan = planned(BindingMode::node, machine(virtual_machine), 1);

    CHECK(workers(plan) == Lines{"0-3 memory 0"});
    CHECK(plan.placed_by == "the GPU of the local rank");
}

TEST_CASE("GPUs whose place is not known: spread, and said") {
    auto silent = machine(two_sockets_eight_gpus);
    for (auto& gpu : silent.gpus)
        gpu.node.reset();

    const auto plan = planned(BindingMode::node, silent, 2);

    CHECK(workers(plan) == Lines{"0-55,112-167 memory 0", "56-111,168-223 memory 1"});
    CHECK(
        plan.problems ==
        Lines{"the machine does not report the NUMA nodes of its GPUs: workers are spread evenly"});
    CHECK(plan_binding(BindingMode::node, silent, std::nullopt, 2).problems.size() == 1);
}

TEST_CASE("more workers than GPUs: the others run anywhere, and it is said once") {
    const auto plan = planned(BindingMode::node, machine(in_a_cpuset), 4);

    CHECK(
        workers(plan) ==
        Lines{"8-15,120-127 memory 0", "64-71,176-183 memory 1", "anywhere", "anywhere"});
    CHECK(plan.problems == Lines{"local ranks 2-3 not bound: only 2 GPUs are visible"});
}

TEST_CASE("a GPU whose node has no CPU for us: its worker runs anywhere, and it is said once") {
    auto narrowed = machine(in_a_cpuset);
    narrowed.allowed = list_of("0-3");

    const auto plan = planned(BindingMode::exclusive, narrowed, 2);

    CHECK(workers(plan) == Lines{"0-3 memory 0", "anywhere"});
    CHECK(
        plan.problems ==
        Lines{"local rank 1 not bound: no CPU near its GPU may be used (affinity mask, cpuset)"});
}

TEST_CASE("socket: a node without a CPU for us has neighbours that do") {
    auto narrowed = machine(four_nodes_per_socket);
    narrowed.allowed = list_of("0-3,192-195");

    CHECK(workers(planned(BindingMode::socket, narrowed, 1)) == Lines{"0-3,192-195 memory 0"});
}

TEST_CASE("exclusive: fewer cores than workers share the whole node, and it is said once") {
    auto narrowed = without_gpus(two_sockets_eight_gpus);
    narrowed.allowed = list_of("0,112");

    const auto plan = planned(BindingMode::exclusive, narrowed, 2);

    CHECK(workers(plan) == Lines{"0,112 memory 0", "0,112 memory 0"});
    CHECK(
        plan.problems == Lines{"local ranks 0-1 bound to all CPUs of the NUMA node: it has fewer "
                               "cores than GPUs or workers"});
}

TEST_CASE("a machine that reports nothing binds no worker and says so") {
    const auto plan = plan_binding(BindingMode::node, Topology{}, std::vector<Gpu>{}, 2);

    CHECK(workers(plan) == Lines{"anywhere", "anywhere"});
    CHECK(plan.problems == Lines{"the machine does not report its CPUs: no worker is bound"});
}
