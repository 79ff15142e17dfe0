// SPDX-License-Identifier: Apache-2.0
// What happens to a node whose health check fails, and to one whose check does not answer.
#include "agent/process/descendants.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <string>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

Running start(const std::string& check, const Words& more) {
    return Running{
        program("ddprun"),
        Words{"--standalone", "--nproc-per-node=2", "--no-python", "--health-check=" + check} +
            more};
}

/// Rank 1 fails in the first round; in the second round all end.
std::string write_failing_once(const TempDir& dir) {
    return dir.write_script(
        "train",
        "#!/bin/sh\ntest $TORCHELASTIC_RESTART_COUNT != 0 && exit 0\n"
        "test $RANK = 1 && exit 7\nexec tail -f /dev/null\n");
}

}  // namespace

TEST_CASE("a node that is unfit starts no worker, and says why") {
    const TempDir dir;
    const auto script = dir.write_script("train", "#!/bin/sh\necho started\n");
    auto job = start("echo GPU 3 has ECC errors; echo more; exit 1", {script});
    CHECK(job.wait_for_code() == 89);
    CHECK(contains(job.err(), "is unfit: GPU 3 has ECC errors"));
    CHECK_FALSE(contains(job.err(), "more"));
    CHECK(job.out().empty());
}

TEST_CASE("a health check knows why it runs, and a round waits for it") {
    const TempDir dir;
    const auto reasons = (dir / "reasons").string();
    auto job = start(
        "echo $DDPRUN_HEALTH_REASON >>" + reasons, {"--max-restarts=1", write_failing_once(dir)});
    CHECK(job.wait_for_code() == 0);
    CHECK(read_file(reasons) == "start\nfailure\n");
    CHECK(no_descendants_left());
}

TEST_CASE("a node that a failure has shown to be unfit ends with 89, restarts or not") {
    const TempDir dir;
    auto job = start(
        "test $DDPRUN_HEALTH_REASON = start || { echo fell off the bus; exit 1; }",
        {"--max-restarts=5", write_failing_once(dir)});
    CHECK(job.wait_for_code() == 89);
    CHECK(contains(job.err(), "is unfit: fell off the bus"));
    CHECK(no_descendants_left());
}

TEST_CASE("the other nodes go on without one that is unfit") {
    const TempDir dir;
    const Rendezvous rendezvous;
    // Its rank 1 fails as long as there is a rank 1.
    const auto script = dir.write_script(
        "train",
        "#!/bin/sh\ntest $WORLD_SIZE = 1 && exit 0\ntest $RANK = 1 && exit 7\n"
        "exec tail -f /dev/null\n");
    const auto node = [&](int rank, const std::string& check) {
        return Running{
            program("ddprun"),
            rendezvous.options(
                {"--nnodes=1:2",
                 "--node-rank=" + std::to_string(rank),
                 // The node that serves must not leave, since the job would end with it.
                 std::string{"--rdzv-conf=last_call_timeout=3,is_host="} +
                     (rank == 0 ? "true" : "false"),
                 "--max-restarts=1",
                 "--health-check=" + check,
                 "--no-python",
                 script})};
    };
    auto fit = node(0, "true");
    auto unfit = node(1, "test $DDPRUN_HEALTH_REASON = start || { echo too hot; exit 1; }");
    CHECK(unfit.wait_for_code() == 89);
    const int code = fit.wait_for_code();
    CAPTURE(fit.err());
    CHECK(code == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("a check that cannot be run is refused at the start") {
    auto job = start("no_such_command_here", {"true"});
    CHECK(job.wait_for_code() == 83);
    CHECK(contains(job.err(), "--health-check: the command exited with code 127"));
}

TEST_CASE(
    "a check that hangs, floods or fails otherwise is a warning, and the node counts as fit") {
    const TempDir dir;
    const auto script = dir.write_script("train", "#!/bin/sh\necho started\n");
    auto hanging = start("tail -f /dev/null", {"--health-timeout=1s", script});
    CHECK(hanging.wait_for_code() == 0);
    CHECK(contains(hanging.err(), "health.unknown"));
    CHECK(contains(hanging.err(), "no answer within 1"));

    auto failing = start("exit 1", {script});
    CHECK(failing.wait_for_code() == 0);
    CHECK(contains(failing.err(), "exited with code 1 and wrote no reason"));

    auto flooding = start("yes & exec sh -c 'kill -9 $$'", {script});
    CHECK(flooding.wait_for_code() == 0);
    CHECK(contains(flooding.err(), "killed by SIGKILL"));

    auto ending_large = start("head -c 3000000 /dev/zero; exit 5", {script});
    CHECK(ending_large.wait_for_code() == 0);
    CHECK(contains(ending_large.err(), "exited with code 5"));
    CHECK(no_descendants_left());
}

TEST_CASE("with --health-strict a check without an answer makes the node unfit") {
    auto failing = start("echo no driver; exit 5", {"--health-strict", "true"});
    CHECK(failing.wait_for_code() == 89);
    CHECK(contains(failing.err(), "is unfit: --health-strict: the command exited with code 5"));
    auto hanging = start("tail -f /dev/null", {"--health-strict", "--health-timeout=1s", "true"});
    CHECK(hanging.wait_for_code() == 89);
    CHECK(contains(hanging.err(), "no answer within 1"));
    CHECK(no_descendants_left());
}

TEST_CASE("a signal during the check ends the node and the check") {
    const TempDir dir;
    const auto begun = (dir / "begun").string();
    auto job = start("touch " + begun + "; tail -f /dev/null", {"true"});
    REQUIRE(holds_within(fact_timeout, [&] { return std::filesystem::exists(begun); }));
    job.signal(SIGTERM);
    CHECK(job.wait_for_code() == 143);
    CHECK(no_descendants_left());
}
