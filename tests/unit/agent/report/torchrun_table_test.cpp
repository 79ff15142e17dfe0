// SPDX-License-Identifier: Apache-2.0
#include "agent/report/torchrun_table.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <string>

using namespace ddprun;
using namespace std::chrono_literals;
using control::Cause;
using control::WorkerEnd;
using control::WorkerFailure;

namespace {

agent::JobReport a_report(WorkerFailure worker) {
    Cause cause{Cause::Kind::worker_failed, "rank 2 on node7.cluster: died", "node7.cluster", 0};
    worker.unix_time = 1'769'860'800;
    cause.worker = std::move(worker);
    agent::JobReport report;
    report.outcome = control::Outcome::failed;
    report.exit_code = 1;
    report.root_cause = cause;
    report.program = "train.py";
    return report;
}

bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("the table of a failed worker is torchrun's, byte for byte") {
    WorkerFailure worker{2, 0, 4242, {WorkerEnd::Kind::exited, 1}, "ValueError: x", ""};
    worker.details = "Traceback (most recent call last):\n  File \"train.py\", line 3\n";
    worker.from_error_file = WorkerFailure::FromErrorFile::message_and_details;
    worker.error_file = "/tmp/torchelastic_ab/none_cd/attempt_0/0/error.json";
    auto report = a_report(worker);
    report.secondary_failures.push_back(
        {3, 1, 4243, {WorkerEnd::Kind::exited, 9}, "node7.cluster"});
    report.stopped.push_back({1, 2, 4244, {WorkerEnd::Kind::killed, SIGTERM}, "node7.cluster"});
    report.stopped.push_back(
        {4, 3, 0, {WorkerEnd::Kind::not_executed, ECANCELED}, "node7.cluster"});

    CHECK(
        torchrun_table(report, 0s) ==
        "============================================================\n"
        "train.py FAILED\n"
        "------------------------------------------------------------\n"
        "Failures:\n"
        "[1]:\n"
        "  time      : <N/A>\n"
        "  host      : node7.cluster\n"
        "  rank      : 1 (local_rank: 2)\n"
        "  exitcode  : -15 (pid: 4244)  (SIGTERM)\n"
        "  error_file: <N/A>\n"
        "  traceback : Signal 15 (SIGTERM) received by PID 4244\n"
        "[2]:\n"
        "  time      : <N/A>\n"
        "  host      : node7.cluster\n"
        "  rank      : 3 (local_rank: 1)\n"
        "  exitcode  : 9 (pid: 4243) \n"
        "  error_file: <N/A>\n"
        "  traceback : To enable traceback see: "
        "https://pytorch.org/docs/stable/elastic/errors.html\n"
        "------------------------------------------------------------\n"
        "Root Cause (first observed failure):\n"
        "[0]:\n"
        "  time      : 2026-01-31_12:00:00\n"
        "  host      : node7.cluster\n"
        "  rank      : 2 (local_rank: 0)\n"
        "  exitcode  : 1 (pid: 4242) \n"
        "  error_file: /tmp/torchelastic_ab/none_cd/attempt_0/0/error.json\n"
        "  traceback : Traceback (most recent call last):\n"
        "    File \"train.py\", line 3\n"
        "  \n"
        "============================================================\n");
}

TEST_CASE("a lonely failure is as wide as its longest line, and the time is local") {
    const auto report =
        a_report({0, 0, 7, {WorkerEnd::Kind::killed, SIGKILL}, "killed by SIGKILL", ""});

    const auto table = torchrun_table(report, 2h);

    CHECK(table.starts_with(std::string(50, '=') + "\ntrain.py"));
    CHECK(contains(table, "Failures:\n  <NO_OTHER_FAILURES>\n-----"));
    CHECK(contains(table, "  time      : 2026-01-31_14:00:00\n"));
    CHECK(contains(table, "  exitcode  : -9 (pid: 7)  (SIGKILL)\n"));
    CHECK(contains(table, "  traceback : Signal 9 (SIGKILL) received by PID 7\n"));
    CHECK(contains(torchrun_table(report, -13h), "2026-01-30_23:00:00"));
}

TEST_CASE("the row for a traceback has the worker's own error message and no other text") {
    WorkerFailure worker{0, 0, 7, {WorkerEnd::Kind::exited, 9}, "out of layers", "line 3"};
    CHECK(contains(torchrun_table(a_report(worker), 0s), "  traceback : To enable traceback see:"));

    worker.from_error_file = WorkerFailure::FromErrorFile::message;
    CHECK(contains(torchrun_table(a_report(worker), 0s), "  traceback : out of layers\n"));

    worker.from_error_file = WorkerFailure::FromErrorFile::message_and_details;
    CHECK(contains(torchrun_table(a_report(worker), 0s), "  traceback : line 3\n"));
}

TEST_CASE("without an error message the table points where torchrun's does") {
    CHECK(contains(
        torchrun_table(a_report({0, 0, 7, {WorkerEnd::Kind::exited, 9}, "", ""}), 0s),
        "  traceback : To enable traceback see: "
        "https://pytorch.org/docs/stable/elastic/errors.html\n"));
    CHECK(contains(
        torchrun_table(a_report({0, 0, 0, {WorkerEnd::Kind::not_executed, ENOENT}, "", ""}), 0s),
        "  exitcode  : 127 (pid: 0) \n"));
}

TEST_CASE("there is no table where no worker failed") {
    auto report = a_report({0, 0, 7, {WorkerEnd::Kind::exited, 9}, "", ""});
    report.root_cause->worker.reset();
    CHECK(torchrun_table(report, 0s).empty());

    report = a_report({0, 0, 7, {WorkerEnd::Kind::exited, 9}, "", ""});
    report.outcome = control::Outcome::succeeded;
    CHECK(torchrun_table(report, 0s).empty());
}
