// SPDX-License-Identifier: Apache-2.0
#include "agent/report/report_json.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>

using namespace ddprun;
using control::Cause;
using control::WorkerEnd;
using control::WorkerFailure;
using Json = nlohmann::json;

namespace {

agent::JobReport a_report(WorkerFailure worker) {
    Cause cause{Cause::Kind::worker_failed, "rank 2 on node7: died", "node7", 4};
    cause.worker = std::move(worker);
    agent::JobReport report;
    report.outcome = control::Outcome::failed;
    report.exit_code = 137;
    report.root_cause = cause;
    report.run_id = "run17";
    report.host = "node1";
    report.program = "train.py";
    report.group_rank = 0;
    report.round = 4;
    report.world_size = 8;
    report.restarts = 1;
    report.max_restarts = 1;
    report.stopped.resize(3);
    report.secondary_failures.push_back({5, 1, 77, {WorkerEnd::Kind::exited, 1}, "node8"});
    return report;
}

WorkerFailure a_failure() {
    WorkerFailure worker{
        2, 0, 4242, {WorkerEnd::Kind::killed, SIGKILL}, "killed", "line 1\nline 2"};
    worker.why = "out of memory";
    worker.log_file = "/logs/stderr.log";
    worker.unix_time = 17;
    worker.progress = {41, ddprun::control::WorkPhase::eval};
    return worker;
}

}  // namespace

TEST_CASE("the report is one line of JSON with everything in it") {
    const auto text = report_json(a_report(a_failure()), "noon");

    CHECK(text.find('\n') == text.size() - 1);
    CHECK(Json::parse(text) == Json::parse(R"({
            "time": "noon", "stream": "ddprun", "event": "job.ended",
            "message": "job failed: rank 2 on node7: died",
            "run_id": "run17", "outcome": "failed", "exit_code": 137, "program": "train.py",
            "host": "node1", "group_rank": 0, "round": 4, "world_size": 8,
            "restarts": {"used": 1, "max": 1},
            "reason": "rank 2 on node7: died",
            "root_cause": {
                "kind": "worker_failed", "reason": "rank 2 on node7: died", "host": "node7",
                "round": 4,
                "worker": {
                    "rank": 2, "local_rank": 0, "pid": 4242,
                    "end": {"kind": "killed", "value": 9, "signal": "SIGKILL",
                            "core_dumped": false, "words": "killed by SIGKILL"},
                    "unix_time": 17, "step": 41, "phase": "eval", "why": "out of memory", "log_file": "/logs/stderr.log", "message": "killed",
                    "details": "line 1\nline 2"}},
            "secondary_failures": [{
                "rank": 5, "local_rank": 1, "pid": 77, "host": "node8",
                "end": {"kind": "exited", "value": 1, "words": "exited with code 1"}}],
            "stopped_here": 3})"));
}

TEST_CASE("a job that succeeded has a report too, a short one") {
    agent::JobReport report;
    report.run_id = "a";

    CHECK(
        Json::parse(report_json(report, "noon")) ==
        Json::parse(R"({"time": "noon", "stream": "ddprun", "event": "job.ended",
                        "message": "job succeeded",
                        "run_id": "a", "outcome": "succeeded", "exit_code": 0, "program": "",
                        "host": "", "restarts": {"used": 0, "max": 0}})"));
}

TEST_CASE("text that is no UTF-8 does not make the report invalid") {
    auto failure = a_failure();
    failure.details = "\xff\xfe half \xc3";

    CHECK(Json::accept(report_json(a_report(failure), "noon")));
}

TEST_CASE("the parent gets the worker's own error file with the exit code in it") {
    const auto original =
        R"({"message": {"message": "ValueError: x", "extra": 1,
            "extraInfo": {"py_callstack": "stack", "timestamp": "17"}}, "more": [1]})";

    CHECK(
        Json::parse(parent_error_json(a_report(a_failure()), original, 99)) ==
        Json::parse(
            R"({"message": {"message": "ValueError: x", "extra": 1, "errorCode": -9,
                "extraInfo": {"py_callstack": "stack", "timestamp": "17"}}, "more": [1]})"));
}

TEST_CASE("an error file in the plain form goes to the parent as it is") {
    const auto original = R"({"message": "it broke", "timestamp": 17})";

    CHECK(
        Json::parse(parent_error_json(a_report(a_failure()), original, 99)) ==
        Json::parse(original));
}

TEST_CASE("without an error file the parent gets one in the same form") {
    CHECK(
        Json::parse(parent_error_json(a_report(a_failure()), "", 99)) ==
        Json::parse(
            R"({"message": {"message": "rank 2 on node7: died", "errorCode": -9,
                "extraInfo": {"py_callstack": "line 1\nline 2", "timestamp": "17"}}})"));
    CHECK(
        parent_error_json(a_report(a_failure()), "{ half", 99) ==
        parent_error_json(a_report(a_failure()), "", 99));
}

TEST_CASE("the parent of a job that was cancelled gets the exit code of the job") {
    agent::JobReport report;
    report.outcome = control::Outcome::cancelled;
    report.exit_code = 143;
    report.reason = "stopped by SIGTERM on node1";

    CHECK(
        Json::parse(parent_error_json(report, "", 99)) ==
        Json::parse(
            R"({"message": {"message": "stopped by SIGTERM on node1", "errorCode": 143,
                "extraInfo": {"py_callstack": "", "timestamp": "99"}}})"));
}

TEST_CASE("a program that could not be executed has the code a shell gives it") {
    auto failure = a_failure();
    failure.end = {WorkerEnd::Kind::not_executed, ENOENT};
    const auto json = Json::parse(parent_error_json(a_report(failure), "", 99));

    CHECK(json["message"]["errorCode"] == 127);
}

TEST_CASE("what the time of the job went into is there phase by phase") {
    auto report = a_report(a_failure());
    report.goodput.emplace();
    (*report.goodput)[ddprun::control::GoodputPhase::redone] = std::chrono::milliseconds{2500};
    const auto goodput = Json::parse(report_json(report, "noon")).at("goodput");
    CHECK(goodput.at("wall_s") == 2.5);
    CHECK(goodput.at("seconds").at("redone") == 2.5);
    CHECK(goodput.at("seconds").at("productive") == 0);
    CHECK(goodput.at("seconds").size() == ddprun::control::goodput_phase_count);
}
