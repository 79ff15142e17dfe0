// SPDX-License-Identifier: Apache-2.0
#include "agent/report/failure_summary.hpp"

#include <doctest/doctest.h>

#include <csignal>

using namespace ddprun;
using control::Cause;
using control::WorkerEnd;
using control::WorkerFailure;

namespace {

agent::JobReport a_report(WorkerFailure worker) {
    Cause cause{
        Cause::Kind::worker_failed,
        "rank 3 on node7 ended and 0 of 0 restarts are left",
        "node7",
        2};
    cause.worker = std::move(worker);
    agent::JobReport report;
    report.outcome = control::Outcome::failed;
    report.exit_code = 1;
    report.first_cause = cause;
    report.run_id = "run17";
    return report;
}

}  // namespace

TEST_CASE("the screen names the first cause, its words, and what fell after it") {
    auto report = a_report(
        {3, 1, 4242, {WorkerEnd::Kind::exited, 1}, "ValueError: x", "Traceback:\n  line 3\n"});
    report.consequences.push_back({2, 0, 4241, {WorkerEnd::Kind::killed, SIGABRT, true}});
    report.stopped_count = 1;

    CHECK(
        failure_summary(report) ==
        "ddprun: job 'run17' failed: rank 3 on node7 ended and 0 of 0 restarts are left\n"
        "  first cause  rank 3 (local rank 1, pid 4242) on node7, round 2\n"
        "  how          exited with code 1\n"
        "  message      ValueError: x\n"
        "  its last words:\n"
        "  | Traceback:\n"
        "  |   line 3\n"
        "  then         rank 2 killed by SIGABRT (core dumped); 1 worker here stopped by ddprun\n"
        "  exit code    1\n");
}

TEST_CASE("a SIGKILL that was not ours comes with a hint") {
    const auto text =
        failure_summary(a_report({0, 0, 7, {WorkerEnd::Kind::killed, SIGKILL}, "", ""}));

    CHECK(
        text.find("how          killed by SIGKILL\n  hint         not sent by ddprun") !=
        text.npos);
}

TEST_CASE("a worker's last words cannot move the cursor") {
    const auto text = failure_summary(
        a_report({0, 0, 7, {WorkerEnd::Kind::exited, 1}, "", "\x1b[2Jgone\r\n\x07"}));

    CHECK(text.find("  | ?[2Jgone?\n  | ?\n") != text.npos);
}

TEST_CASE("many consequences are folded") {
    auto report = a_report({0, 0, 7, {WorkerEnd::Kind::exited, 1}, "", ""});
    for (int rank = 1; rank < 64; ++rank)
        report.consequences.push_back({rank, rank, 7, {WorkerEnd::Kind::exited, 1}});

    CHECK(failure_summary(report).find("; and 55 more\n") != std::string::npos);
}

TEST_CASE("a cancelled job says so, a good one says nothing") {
    agent::JobReport report;
    report.run_id = "a";
    CHECK(failure_summary(report).empty());

    report.outcome = control::Outcome::cancelled;
    report.exit_code = 130;
    report.first_cause = Cause{Cause::Kind::cancelled, "SIGINT on node1", "node1"};
    CHECK(
        failure_summary(report) ==
        "ddprun: job 'a' was cancelled: SIGINT on node1\n  exit code    130\n");
}

TEST_CASE("without a result the screen says what this node ended for") {
    agent::JobReport report;
    report.run_id = "a";
    report.outcome = control::Outcome::failed;
    report.exit_code = 81;
    report.reason = "the rendezvous server at node1:29400 is gone";

    CHECK(
        failure_summary(report) ==
        "ddprun: job 'a' failed: the rendezvous server at node1:29400 is gone\n"
        "  exit code    81\n");
}
