// SPDX-License-Identifier: Apache-2.0
#include "agent/report/failure_summary.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <string>

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
    report.root_cause = cause;
    report.run_id = "run17";
    report.round = 2;
    report.program = "train.py";
    return report;
}

bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("the screen names the root cause, its error and stderr, and the other workers") {
    auto report = a_report(
        {3, 1, 4242, {WorkerEnd::Kind::exited, 1}, "ValueError: x", "Traceback:\n  line 3\n"});
    report.host = "node7";
    report.secondary_failures.push_back(
        {2, 0, 4241, {WorkerEnd::Kind::killed, SIGABRT, true}, "node7"});
    report.secondary_failures.push_back({9, 1, 77, {WorkerEnd::Kind::exited, 1}, "node8"});
    report.stopped.resize(1);
    report.max_restarts = 3;
    report.restarts = 3;

    CHECK(
        failure_summary(report, false) ==
        "ddprun: job failed: rank 3 on node7 ended and 0 of 0 restarts are left\n"
        "  root cause     rank 3 (local rank 1, pid 4242) on node7, round 2\n"
        "  how            exited with code 1\n"
        "  error          ValueError: x\n"
        "  stderr (last 2 lines):\n"
        "  | Traceback:\n"
        "  |   line 3\n"
        "  other workers  rank 2 killed by SIGABRT (core dumped); rank 9 on node8 exited\n"
        "                 with code 1; 1 worker here stopped by ddprun\n"
        "  job            run17, train.py\n"
        "  restarts       3 of 3 used\n"
        "  exit code      1\n");
}

TEST_CASE("the quoted lines are named for where they come from") {
    WorkerFailure worker{0, 0, 7, {WorkerEnd::Kind::exited, 1}, "", "a\nb\nc"};
    CHECK(contains(failure_summary(a_report(worker), false), "  stderr (last 3 lines):\n  | a\n"));

    worker.details = "a\n";
    CHECK(contains(failure_summary(a_report(worker), false), "  stderr (last line):\n  | a\n"));

    worker.from_error_file = WorkerFailure::FromErrorFile::message;
    CHECK(contains(failure_summary(a_report(worker), false), "  stderr (last line):\n"));

    worker.from_error_file = WorkerFailure::FromErrorFile::message_and_details;
    CHECK(contains(failure_summary(a_report(worker), false), "  call stack:\n  | a\n"));
}

TEST_CASE("what the machine knows of the cause stands below how it died") {
    WorkerFailure worker{0, 0, 7, {WorkerEnd::Kind::killed, SIGKILL}, "", ""};
    worker.why = "the kernel killed it for lack of memory (memory limit 2 GiB)";

    CHECK(contains(
        failure_summary(a_report(worker), false),
        "  how            killed by SIGKILL\n"
        "  why            the kernel killed it for lack of memory (memory limit 2 GiB)\n"));
}

TEST_CASE("the last that a worker reported of itself stands before what the machine knows") {
    WorkerFailure worker{0, 0, 7, {WorkerEnd::Kind::killed, SIGKILL}, "", ""};
    worker.why = "out of memory";
    CHECK_FALSE(contains(failure_summary(a_report(worker), false), "progress"));

    worker.progress = {41, ddprun::control::WorkPhase::eval};
    CHECK(contains(
        failure_summary(a_report(worker), false),
        "  how            killed by SIGKILL\n"
        "  progress       step 41, in phase eval\n"
        "  why            out of memory\n"));
    worker.progress = {std::nullopt, ddprun::control::WorkPhase::start};
    CHECK(contains(failure_summary(a_report(worker), false), "  progress       in phase start\n"));
}

TEST_CASE("where more of it is written stands before the end of its standard error") {
    WorkerFailure worker{0, 0, 7, {WorkerEnd::Kind::exited, 1}, "", "E: x"};
    worker.error_file = "/logs/rank-0/error.json";
    worker.log_file = "/logs/rank-0/stderr.log";

    CHECK(contains(
        failure_summary(a_report(worker), false),
        "  error file     /logs/rank-0/error.json\n"
        "  log            /logs/rank-0/stderr.log\n"
        "  stderr (last line):\n"));
}

TEST_CASE("without facts of its machine a death by SIGKILL still comes with advice") {
    const auto text =
        failure_summary(a_report({0, 0, 7, {WorkerEnd::Kind::killed, SIGKILL}, "", ""}), false);

    CHECK(contains(text, "how            killed by SIGKILL\n  why            not sent by ddprun"));
}

TEST_CASE("what the headline says is not said again") {
    auto report = a_report({3, 1, 4242, {WorkerEnd::Kind::exited, 1}, "ValueError: x", ""});
    report.root_cause->reason = "rank 3 on node7: ValueError: x";

    CHECK_FALSE(contains(failure_summary(report, false), "\n  error"));
}

TEST_CASE("how a worker died is said once, in the headline if it is there") {
    auto report = a_report({3, 1, 4242, {WorkerEnd::Kind::killed, SIGKILL}, "killed by SIGKILL"});
    report.root_cause->reason = "rank 3 on node7: killed by SIGKILL (out of memory)";

    CHECK_FALSE(contains(failure_summary(report, false), "\n  how"));

    report.root_cause->reason = "rank 3 on node7: ValueError: x";
    CHECK(contains(failure_summary(report, false), "\n  how            killed by SIGKILL\n"));
}

TEST_CASE("a worker that could not be started did not exit with a code") {
    const std::string why_not = "could not be started: start ./x: Resource temporarily unavailable";
    auto report = a_report({3, 1, 0, {WorkerEnd::Kind::exited, 1}, why_not});
    report.secondary_failures.push_back({4, 2, 0, {WorkerEnd::Kind::exited, 1}, ""});

    auto text = failure_summary(report, false);
    CHECK(contains(text, "\n  how            could not be started\n"));
    CHECK(contains(text, "\n  other workers  rank 4 could not be started\n"));
    CHECK_FALSE(contains(text, "exited with code"));

    report.root_cause->reason = "rank 3 on node7: " + why_not;
    text = failure_summary(report, false);
    CHECK_FALSE(contains(text, "\n  how"));
    CHECK_FALSE(contains(text, "\n  error"));
}

TEST_CASE("a long message is cut in the headline and whole below it") {
    const auto message = "ValueError: " + std::string(2000, 'x');
    auto report = a_report({3, 1, 4242, {WorkerEnd::Kind::exited, 1}, message});
    report.root_cause->reason = "rank 3 on node7: " + message;

    const auto text = failure_summary(report, false);

    CHECK(text.find("...\n  root cause") < 500);
    CHECK(contains(
        text, "\n  error          ValueError:\n                 " + std::string(2000, 'x')));
}

TEST_CASE("what the user can do stands below the headline") {
    agent::JobReport report;
    report.outcome = control::Outcome::failed;
    report.exit_code = 80;
    report.reason = "1 of 2 nodes joined within 600 s (a)";
    report.next_step = "on each missing node: ddprun ...";

    CHECK(
        failure_summary(report, false) ==
        "ddprun: job failed: 1 of 2 nodes joined within 600 s (a)\n"
        "  next step      on each missing node: ddprun ...\n"
        "  exit code      80\n");
}

TEST_CASE("a message of several lines gives its first to the headline") {
    auto report = a_report({3, 1, 4242, {WorkerEnd::Kind::exited, 1}, "E: a\nb", ""});
    report.root_cause->reason = "rank 3 on node7: E: a\nb";

    const auto text = failure_summary(report, false);

    CHECK(text.starts_with("ddprun: job failed: rank 3 on node7: E: a\n  root cause"));
    CHECK(contains(text, "  error          E: a\n                 b\n"));
}

TEST_CASE("lines of the report's own stay within 80 columns") {
    WorkerFailure worker{0, 0, 7, {WorkerEnd::Kind::killed, SIGKILL}, "", ""};
    for (int i = 0; i < 60; ++i)
        worker.why += "word" + std::to_string(i) + " ";

    std::istringstream lines{failure_summary(a_report(worker), false)};

    for (std::string line; std::getline(lines, line);)
        CHECK(line.size() < 80);
}

TEST_CASE("colour is only where it was asked for, and ends where it began") {
    const auto report = a_report({0, 0, 7, {WorkerEnd::Kind::exited, 1}, "", "\x1b[31mred"});

    CHECK_FALSE(contains(failure_summary(report, false), "\x1b"));
    const auto coloured = failure_summary(report, true);
    CHECK(coloured.starts_with("\x1b[1;31mddprun: job"));
    CHECK(contains(coloured, "are left\x1b[0m\n"));
    CHECK(contains(coloured, "  | ?[31mred\n"));
}

TEST_CASE("what a worker wrote cannot move the cursor") {
    const auto text = failure_summary(
        a_report(
            {0,
             0,
             7,
             {WorkerEnd::Kind::exited, 1},
             "",
             "\x1b[2Jgone\r\n\x07\xc2\x9b"
             "1m"}),
        false);

    CHECK(text.find("  | ?[2Jgone?\n  | ??1m\n") != text.npos);
}

TEST_CASE("of many other workers the first are listed") {
    auto report = a_report({0, 0, 7, {WorkerEnd::Kind::exited, 1}, "", ""});
    for (int rank = 1; rank < 64; ++rank)
        report.secondary_failures.push_back({rank, rank, 7, {WorkerEnd::Kind::exited, 1}, ""});

    CHECK(contains(failure_summary(report, false), "; and 55 more\n"));
}

TEST_CASE("a cancelled job says so, a good one says nothing") {
    agent::JobReport report;
    report.run_id = "a";
    CHECK(failure_summary(report, false).empty());

    report.outcome = control::Outcome::cancelled;
    report.exit_code = 130;
    report.root_cause = Cause{Cause::Kind::cancelled, "SIGINT on node1", "node1"};
    CHECK(
        failure_summary(report, false) ==
        "ddprun: job was cancelled: SIGINT on node1\n  exit code      130\n");
}

TEST_CASE("without a result the screen says what this node ended for") {
    agent::JobReport report;
    report.run_id = "a";
    report.outcome = control::Outcome::failed;
    report.exit_code = 81;
    report.reason = "the rendezvous server at node1:29400 is gone";

    CHECK(
        failure_summary(report, false) ==
        "ddprun: job failed: the rendezvous server at node1:29400 is gone\n"
        "  exit code      81\n");
}

TEST_CASE("the last row says what the time went into, where steps were reported") {
    auto report = a_report({3, 1, 4242, {WorkerEnd::Kind::exited, 1}, "ValueError: x"});
    report.goodput.emplace();
    (*report.goodput)[control::GoodputPhase::unmeasured] = std::chrono::seconds{30};
    CHECK_FALSE(contains(failure_summary(report, false), "  time "));
    (*report.goodput)[control::GoodputPhase::productive] = std::chrono::seconds{10};
    CHECK(failure_summary(report, false)
              .ends_with("  exit code      1\n"
                         "  time           40.0 s: productive 25.0 %, unmeasured 75.0 %\n"));
}
