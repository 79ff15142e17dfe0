// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/text.hpp"
#include "rendezvous/coordinator/restart_budget.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <signal.h>

#include <cerrno>

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

Story job_with(const control::RestartPolicy& policy, int restarts = 9) {
    return Story{"2", restarts, [=](control::Join& join) { join.settings.restart = policy; }};
}

control::RestartPolicy pausing(Duration shortest, Duration longest) {
    control::RestartPolicy policy;
    policy.shortest_delay = shortest;
    policy.longest_delay = longest;
    return policy;
}

void fail_with(Story& job, int round, control::WorkerEnd end) {
    job.failed_with("a", round, 1ms, [&](control::WorkerFailure& failure) {
        failure.end = end;
        failure.message = control::describe(end);
    });
    job.ready("a b", round);
}

/// The state of the job after a failure of this kind in its first round.
std::string state_after(const control::RestartPolicy& policy, control::WorkerEnd end) {
    auto job = job_with(policy);
    job.run("a b");
    fail_with(job, 0, end);
    return job.status().state;
}

using End = control::WorkerEnd::Kind;

}  // namespace

TEST_CASE("pauses double while failures come quickly, and restart after a long round") {
    RestartDelay delay{pausing(5s, 30s)};

    CHECK(delay.next(1s) == 5s);
    CHECK(delay.next(1s) == 10s);
    CHECK(delay.next(29s) == 20s);
    CHECK(delay.next(1s) == 30s);
    CHECK(delay.next(1s) == 30s);
    CHECK(delay.next(30s) == 5s);
    CHECK(delay.next(1s) == 10s);
}

TEST_CASE("one length is always the same pause, and none is none") {
    RestartDelay same{pausing(5s, 5s)};
    CHECK(same.next(1s) == 5s);
    CHECK(same.next(1s) == 5s);

    RestartDelay none{{}};
    CHECK(none.next(1s) == 0s);
    CHECK(none.next(1s) == 0s);
}

TEST_CASE(
    "after a failure the next round begins when its pause is over, and every node is notified") {
    auto job = job_with(pausing(4s, 60s));
    job.run("a b");
    job.failed("a");
    job.output();

    job.ready("a b");

    const std::string what = "restart 1 of 9 after a pause of 4 s";
    const auto why = what + ": rank 0 on a: exited with code 7";
    CHECK(
        job.output() ==
        Lines{"a standby \"" + what + "\"", "b standby \"" + what + "\"", "forming: " + why});
    job.pass(1500ms, "a b");
    CHECK(job.status().reason == why + " (2.5 s left)");
    job.pass(2400ms, "a b");
    CHECK(job.status().state == "forming");
    job.pass(200ms, "a b");
    CHECK(job.status().state == "running");
    CHECK(job.assignment("b").restart_count == 1);

    job.failed("b", 1);
    job.ready("a b", 1);
    job.pass(7900ms, "a b");
    CHECK(job.status().state == "forming");
    job.pass(200ms, "a b");
    CHECK(job.status().state == "running");
}

TEST_CASE("a stop during the pause is immediate") {
    for (const int signal : {SIGINT, SIGTERM}) {
        auto job = job_with(pausing(60s, 60s));
        job.run("a b");
        job.failed("a");
        job.ready("a b");

        job.interrupt(signal);

        CHECK(job.status().state == "cancelled");
    }
    auto job = job_with(pausing(60s, 60s));
    job.run("a b");
    job.failed("a");
    job.ready("a b");
    job.leave("a", SIGTERM);
    CHECK(job.status().state == "forming");
    job.leave("b", SIGTERM);
    CHECK(job.status().state == "cancelled");
}

TEST_CASE(
    "a node that is lost in the pause is missed when it is over, and is waited for from then on") {
    auto job = job_with(pausing(60s, 60s));
    job.run("a b");
    job.failed("a");
    job.ready("a b");
    job.drop("b");
    job.pass(61s, "a");
    CHECK(job.status().state == "forming");
    CHECK(job.status().reason.find("waiting for 1 node") != std::string::npos);

    job.pass(598s, "a");
    CHECK(job.status().state == "forming");
    job.pass(2s, "a");
    CHECK(job.status().state == "failed");
}

TEST_CASE("lost nodes and late nodes are not waited for longer: only failures pause") {
    Story job{"1:2", 3, [](control::Join& join) { join.settings.restart = pausing(60s, 60s); }};
    job.join("a");
    job.join("b");
    job.started("a b");
    job.drop("b");
    job.pass(1s, "a");

    job.ready("a");

    CHECK(job.status().state == "running");
}

TEST_CASE("usage and exec errors end the job at once, and the reason names the code") {
    auto job = job_with({});
    job.run("a b");

    fail_with(job, 0, {End::exited, 2, false});

    CHECK(
        job.result("b") ==
        "result failed exit_code=2 worker_failed \"rank 0 on a: exited with code 2; no restart "
        "after exit code 2 (--no-restart-on)\" host=a round=0");
}

TEST_CASE("which exit codes are final is a choice; a signal is 128 and its number") {
    CHECK(state_after({}, {End::exited, 126, false}) == "failed");
    CHECK(state_after({}, {End::exited, 127, false}) == "failed");
    CHECK(state_after({}, {End::exited, 1, false}) == "running");
    CHECK(state_after({}, {End::killed, 2, false}) == "running");

    control::RestartPolicy own;
    own.final_codes = {3, 137};
    CHECK(state_after(own, {End::exited, 3, false}) == "failed");
    CHECK(state_after(own, {End::exited, 2, false}) == "running");
    CHECK(state_after(own, {End::killed, SIGKILL, false}) == "failed");

    // A program that cannot be executed now will not be executable next time, whatever the option
    // says.
    own.final_codes.clear();
    CHECK(state_after(own, {End::not_executed, ENOENT, false}) == "failed");
}

TEST_CASE("with no restart left a final code is not mentioned") {
    auto job = job_with({}, 0);
    job.run("a b");

    fail_with(job, 0, {End::exited, 2, false});

    CHECK(
        job.result("a") ==
        "result failed exit_code=2 worker_failed \"rank 0 on a: exited with code 2\" host=a "
        "round=0");
}

TEST_CASE("a long round makes the budget full again; workers get the count of all restarts") {
    control::RestartPolicy policy;
    policy.refill_after = 100s;
    auto job = job_with(policy, 1);
    job.run("a b");
    fail_with(job, 0, {End::exited, 7, false});
    job.started("a b", 1);
    CHECK(job.status().restarts_used == 1);
    job.pass(99s, "a b");
    CHECK(job.status().restarts_used == 1);
    job.output();

    job.pass(2s, "a b");

    CHECK(job.status().restarts_used == 0);
    CHECK(
        job.output() ==
        Lines{"running: round 1 has run for 100 s: the budget is full again (--max-restarts=1)"});
    fail_with(job, 1, {End::exited, 7, false});
    CHECK(job.status().state == "running");
    CHECK(job.assignment("a").restart_count == 2);
    job.started("a b", 2);

    fail_with(job, 2, {End::exited, 7, false});
    CHECK(job.status().state == "failed");
}

TEST_CASE("without a refill a budget that is spent stays spent") {
    auto job = job_with({}, 1);
    job.run("a b");
    fail_with(job, 0, {End::exited, 7, false});
    job.started("a b", 1);
    job.pass(std::chrono::hours{1}, "a b");

    fail_with(job, 1, {End::exited, 7, false});

    CHECK(job.status().state == "failed");
}

TEST_CASE("nodes that were started with another restart policy are refused") {
    for (const auto& [tweak, words] : std::vector<std::pair<Story::Tweak, std::string>>{
             {[](control::Join& join) { join.settings.restart.shortest_delay = 5s; },
              "--restart-delay is 5 s on b and 0 s"},
             {[](control::Join& join) { join.settings.restart.longest_delay = 5s; },
              "the longest --restart-delay is 5 s on b and 0 s"},
             {[](control::Join& join) {
                  join.settings.restart.refill_after = std::chrono::hours{1};
              },
              "--restart-refill is 3600 s on b and 0 s"},
             {[](control::Join& join) { join.settings.restart.final_codes.clear(); },
              "--no-restart-on is none on b and 2,126,127"},
             {[](control::Join& join) { join.settings.restart.rounds_without_progress = 3; },
              "--stop-without-progress is 3 on b and not given"}}) {
        Story job{"2"};
        job.join("a");
        job.output();
        job.join("b", tweak);
        CHECK(job.output().front().find(words) != std::string::npos);
    }
}

TEST_CASE("the status counts restarts by cause, workers by state and the time of each phase") {
    auto job = job_with(pausing(4s, 60s));
    job.run("a b");
    job.pass(10s, "a b");
    job.failed("a");
    job.pass(2s, "a b");
    job.ready("a");
    CHECK(job.status().workers_by_state == std::map<std::string, std::uint64_t>{{"stopping", 2}});
    job.ready("b");
    job.pass(3s, "a b");

    auto status = job.status();
    CHECK(status.restarts_by_cause == std::map<std::string, std::uint64_t>{{"worker_failed", 1}});
    CHECK(status.nodes_by_state == std::map<std::string, std::uint64_t>{{"ready", 2}});
    CHECK(
        status.seconds_by_phase ==
        std::map<std::string, double>{
            {"forming", 3}, {"running", 10}, {"draining", 2}, {"recovering", 0}});

    job.pass(1s, "a b");
    status = job.status();
    CHECK(status.workers_by_state == std::map<std::string, std::uint64_t>{{"starting", 4}});
}
