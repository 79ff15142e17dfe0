// SPDX-License-Identifier: Apache-2.0
#include "agent/process/read_topology.hpp"
#include "tests/process/ddprun/job.hpp"

#include <doctest/doctest.h>

#include <sched.h>

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// Binds the test, and so the processes that it starts, to one CPU until the end of the scope.
class OnlyOn {
public:
    explicit OnlyOn(int cpu) {
        ::sched_getaffinity(0, sizeof before_, &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        ::sched_setaffinity(0, sizeof one, &one);
    }
    ~OnlyOn() { ::sched_setaffinity(0, sizeof before_, &before_); }
    OnlyOn(const OnlyOn&) = delete;
    OnlyOn& operator=(const OnlyOn&) = delete;

private:
    cpu_set_t before_{};
};

const std::string print_cpus = "grep Cpus_allowed_list /proc/self/status";

Words cpu_lines(const std::string& out) {
    Words lines;
    for (const auto& line : sorted_lines(out))
        lines.push_back(line.substr(line.find_first_of("0123456789")));
    return lines;
}

}  // namespace

TEST_CASE("each worker has cores of its own under --numa-binding=exclusive") {
    const auto machine = agent::read_topology(agent::allowed_cpus());
    // Checks the plan for this machine from the outside: the bindings must be those that --explain
    // shows.
    const TempDir dir;
    const Words options{"--nproc-per-node=2", "--numa-binding=exclusive"};
    auto explained = one_node(dir, Words{"--explain"} + options, "exit 0");
    REQUIRE(explained.wait_for_code() == 0);

    auto job = one_node(dir, options, print_cpus);
    const int code = job.wait_for_code();

    CAPTURE(explained.out());
    CAPTURE(job.err());
    CHECK(code == 0);
    const auto lines = cpu_lines(job.out());
    REQUIRE(lines.size() == 2);
    for (const auto& line : lines)
        CHECK(contains(explained.out(), "CPUs " + line));
    if (machine.cpus.size() > 1 && machine.allowed.size() > 1) CHECK(lines[0] != lines[1]);
    CHECK(no_descendants_left());
}

TEST_CASE("binding stays within the mask that ddprun was started with") {
    const int cpu = agent::allowed_cpus().back();
    const OnlyOn only{cpu};
    const TempDir dir;

    for (const auto* mode : {"node", "socket", "exclusive", "core-complex"}) {
        CAPTURE(mode);
        auto job = one_node(dir, {"--numa-binding", mode}, print_cpus);
        CHECK(job.wait_for_code() == 0);
        CHECK(cpu_lines(job.out()) == Words{std::to_string(cpu)});
    }
}

TEST_CASE("a binding that cannot be done is said once and the job runs") {
    const OnlyOn only{agent::allowed_cpus().front()};
    const TempDir dir;

    auto job = one_node(dir, {"--nproc-per-node=2", "--numa-binding=exclusive"}, "exit 0");

    CHECK(job.wait_for_code() == 0);
    const auto first = job.err().find("binding.limited");
    CHECK(first != std::string::npos);
    CHECK(job.err().find("binding.limited", first + 1) == std::string::npos);
}

TEST_CASE("a binding that does not exist is wrong use") {
    const TempDir dir;
    auto job = one_node(dir, {"--numa-binding=cores"}, "exit 0");

    CHECK(job.wait_for_code() == 2);
    CHECK(contains(
        job.err(),
        "--numa-binding: 'cores': accepted are node, socket, exclusive and core-complex"));
}
