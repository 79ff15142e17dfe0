// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/cpu_binding.hpp"

#include "tests/support/machines.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using Words = std::vector<std::string>;

Result<CpuBindingChoice> chosen(
    const Words& words, int worker_count, const Environment& environment = {}) {
    auto options = parse_options(words, environment);
    REQUIRE(options.has_value());
    return choose_cpu_binding(*options, environment, worker_count, [] {
        return test::machine(test::two_sockets_eight_gpus);
    });
}

Words lines(const Words& words, int worker_count, const Environment& environment = {}) {
    const auto choice = chosen(words, worker_count, environment);
    REQUIRE(choice.has_value());
    return describe(choice->plan);
}

}  // namespace

TEST_CASE("without --numa-binding nothing is bound, and the machine is not read") {
    const auto choice = choose_cpu_binding({}, {}, 2, {});

    REQUIRE(choice.has_value());
    CHECK(choice->mode.empty());
    CHECK(choice->plan.workers.empty());
}

TEST_CASE("--numa-binding binds each worker, and says so in words") {
    CHECK(
        lines({"--numa-binding=exclusive", "s.py"}, 2) ==
        Words{"0: CPUs 0-13,112-125, memory of node 0", "1: CPUs 14-27,126-139, memory of node 0"});
}

TEST_CASE("CUDA_VISIBLE_DEVICES decides which GPU a local rank means") {
    CHECK(
        lines({"--numa-binding=node", "s.py"}, 2, {{"CUDA_VISIBLE_DEVICES", "7,0"}}) ==
        Words{
            "0: CPUs 56-111,168-223, memory of node 1", "1: CPUs 0-55,112-167, memory of node 0"});
    CHECK(
        lines({"--numa-binding=node", "s.py"}, 2, {{"CUDA_VISIBLE_DEVICES", ""}}) ==
        Words{
            "0: CPUs 0-55,112-167, memory of node 0", "1: CPUs 56-111,168-223, memory of node 1"});
    CHECK(
        lines(
            {"--numa-binding=node", "s.py"},
            2,
            {{"HIP_VISIBLE_DEVICES", "7,0"}, {"CUDA_VISIBLE_DEVICES", "0"}}) ==
        Words{
            "0: CPUs 56-111,168-223, memory of node 1", "1: CPUs 0-55,112-167, memory of node 0"});
    CHECK(
        lines({"--numa-binding=node", "s.py"}, 2, {{"CUDA_VISIBLE_DEVICES", "1"}}).back() ==
        "1: any CPU");
}

TEST_CASE("a mode that is none is wrong use, from wherever it came") {
    CHECK(
        chosen({"--numa_binding", "numa", "s.py"}, 1).error().context ==
        "--numa_binding: 'numa': accepted are node, socket, exclusive and core-complex");
}
