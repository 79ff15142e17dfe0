// SPDX-License-Identifier: Apache-2.0
// --late-nodes and --max-losses: when a late node is admitted, and how many lost rounds a job
// survives.
#include "tests/process/ddprun/job.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>

using namespace ddprun::test;

namespace {

const std::string say_world = "echo world $WORLD_SIZE round $DDPRUN_ROUND\n";

/// Performs the commands in the first round; a later round succeeds at once.
std::string in_first_round(const std::string& commands) {
    return say_world + "if [ $DDPRUN_ROUND = 0 ]; then\n" + commands + "\nfi";
}

Words late_nodes(const std::string& policy) {
    return {
        "--nnodes=1:2",
        "--max-restarts=1",
        "--late-nodes=" + policy,
        "--rdzv-conf=last_call_timeout=1"};
}

struct Outputs {
    std::string first;
    std::string late;
};

/// The first round, of one node, fails once a late node waits for this reason; then both nodes
/// succeed.
Outputs fail_once_a_node_waits(const std::string& policy, const std::string& reason) {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto go = (dir / "go").string();
    REQUIRE(::mkfifo(go.c_str(), 0600) == 0);
    const auto options = rendezvous.options(late_nodes(policy));
    const auto script = in_first_round("read line <" + go + "; exit 9");
    auto first = start_job(dir, options, script);
    first.wait_for_line("world 1 round 0");

    auto late = start_job(dir, options, script);
    late.wait_for_line(reason);
    // Opening succeeds as soon as the worker reads, and does not block when the worker is gone.
    CHECK(holds_within(fact_timeout, [&] {
        const int pipe = ::open(go.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        return pipe >= 0 && ::write(pipe, "\n", 1) == 1 && ::close(pipe) == 0;
    }));

    CHECK(first.wait_for_code() == 0);
    CHECK(late.wait_for_code() == 0);
    CHECK(contains(first.err(), "exited with code 9"));
    CHECK(no_descendants_left());
    return {first.out(), late.out()};
}

}  // namespace

TEST_CASE("with --late-nodes=at-restart a late node gets in when the job restarts, not before") {
    const auto outputs =
        fail_once_a_node_waits("at-restart", "this one gets in at the next restart");
    CHECK(outputs.first == "world 1 round 0\nworld 2 round 1\n");
    CHECK(outputs.late == "world 2 round 1\n");
}

TEST_CASE("with --late-nodes=never a restart lets no late node in") {
    const auto outputs = fail_once_a_node_waits("never", "this one takes the next free place");
    CHECK(outputs.first == "world 1 round 0\nworld 1 round 1\n");
    CHECK(outputs.late.empty());
}

TEST_CASE("with --late-nodes=never a late node takes the place of one that is lost") {
    const TempDir dir;
    Running daemon{
        program("ddprun-rendezvous"), {"--host=127.0.0.1", "--port=0", "--log-level=info"}};
    const auto options =
        Words{
            "--rdzv-backend=c10d",
            "--rdzv-id=tested",
            "--rdzv-endpoint=127.0.0.1:" + std::to_string(daemon.wait_for_number("port="))} +
        late_nodes("never");
    const auto script = in_first_round(wait_for_ever);
    auto first = start_job(dir, options, script);
    first.wait_for_line("world 1 round 0");
    auto late = start_job(dir, options, script);
    late.wait_for_line("this one takes the next free place");

    ::kill(first.pid(), SIGKILL);

    CHECK(late.wait_for_code() == 0);
    CHECK(late.out() == "world 1 round 1\n");
    CHECK(first.wait_for_code() == 128 + SIGKILL);
    daemon.signal(SIGTERM);
    CHECK(daemon.wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("with --max-losses=0 the first lost node ends the job with 84") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto options = rendezvous.options({"--nnodes=1:2", "--max-losses=0"});
    const auto script = say_world + wait_for_ever;
    auto host =
        start_job(dir, options + Words{"--rdzv-conf=is_host=1,last_call_timeout=60"}, script);
    auto other =
        start_job(dir, options + Words{"--rdzv-conf=is_host=0,last_call_timeout=60"}, script);
    host.wait_for_line("world 2 round 0");
    other.wait_for_line("world 2 round 0");

    ::kill(other.pid(), SIGKILL);

    CHECK(host.wait_for_code() == 84);
    CHECK(contains(host.err(), "nodes were lost in more than 0 rounds within an hour"));
    CHECK(host.out() == "world 2 round 0\n");
    CHECK(other.wait_for_code() == 128 + SIGKILL);
    CHECK(no_descendants_left());
}
