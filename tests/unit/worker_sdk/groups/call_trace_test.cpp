// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/call_trace.hpp"

#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <iterator>
#include <string>

using namespace ddprun;
using ddprun::test::TemporaryFolder;
using namespace ddprun::groups;
using State = CallTrace::State;

namespace {

Collective a_barrier(std::uint64_t sequence) {
    Collective collective;
    collective.sequence = sequence;
    return collective;
}

}  // namespace

TEST_CASE("a trace has the latest calls, oldest first, and no more than its room") {
    CallTrace trace;
    CHECK(trace.latest().empty());

    for (std::uint64_t call = 1; call <= CallTrace::room + 10; ++call)
        trace.launched(a_barrier(call));

    const auto latest = trace.latest();
    CHECK(latest.size() == CallTrace::room);
    CHECK(latest.front().sequence == 11);
    CHECK(latest.back().sequence == CallTrace::room + 10);
}

TEST_CASE("a call's state changes while the trace has it") {
    CallTrace trace;
    const auto first = trace.launched(a_barrier(1));
    const auto second = trace.launched(a_barrier(2));
    trace.running(first);
    trace.ended(first, true);
    trace.ended(second, false);
    trace.ended(0, true);

    const auto calls = trace.latest();
    REQUIRE(calls.size() == 2);
    CHECK(calls[0].state == State::done);
    CHECK(calls[0].ended_ms >= calls[0].launched_ms);
    CHECK(calls[1].state == State::failed);

    // Its entry has been reused for another call.
    for (std::uint64_t call = 3; call <= CallTrace::room + 1; ++call)
        trace.launched(a_barrier(call));
    trace.ended(first, false);
    CHECK(trace.latest().back().state == State::launched);
}

TEST_CASE("the lines of a trace's file") {
    CallTrace::Entry call{};
    call.kind = Collective::Kind::send;
    call.type = ElementType::int32;
    call.state = State::running;
    call.receiver = 2;
    call.count = 10;
    call.sequence = 3;
    call.launched_ms = 1700000000123;

    CHECK(
        text_of({1, 4, 2, "ddprun/x/group1/", "lost \"rank 2\"\n"}, {call}) ==
        R"({"ddprun_calls": 1, "rank": 1, "world_size": 4, "round": 2, "group": "ddprun/x/group1/", )"
        R"("error": "lost \"rank 2\"\u000a"})"
        "\n"
        R"({"queue": "send", "number": 3, "call": "message 3 from rank 0 to rank 2: 10 int32", )"
        R"("state": "running", "launched_ms": 1700000000123, "ended_ms": 0})"
        "\n");
}

TEST_CASE("a trace that cannot be written whole leaves the file as it was") {
    const TemporaryFolder folder;
    const auto path = (folder.path / "calls.jsonl").string();
    CHECK(append_trace(path, "first\n"));
    rlimit unlimited{};
    ::getrlimit(RLIMIT_FSIZE, &unlimited);
    const auto on_excess = ::signal(SIGXFSZ, SIG_IGN);

    const rlimit small{10, unlimited.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const bool is_written = append_trace(path, "second\n");
    ::setrlimit(RLIMIT_FSIZE, &unlimited);
    ::signal(SIGXFSZ, on_excess);
    CHECK_FALSE(is_written);
    CHECK(append_trace(path, "third\n"));

    std::ifstream file(path);
    CHECK(std::string{std::istreambuf_iterator<char>{file}, {}} == "first\nthird\n");
}

TEST_CASE("a trace's file is in a folder that is the rank's own, or nowhere") {
    CHECK(trace_path("/logs/rank-1/error.json") == "/logs/rank-1/calls.jsonl");
    CHECK(trace_path("/tmp/ddprun-3f-0-1.json").empty());
    CHECK(trace_path("").empty());
}
