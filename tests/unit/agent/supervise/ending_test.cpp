// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/ending.hpp"

#include "rendezvous/base/exit_codes.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
namespace ctl = ddprun::control;

namespace {

ctl::JobResult a_result(int exit_code) {
    return {
        exit_code == 0 ? ctl::Outcome::succeeded : ctl::Outcome::failed, std::nullopt, exit_code};
}

ctl::EndedWorker at_rank(int rank) {
    return {rank, rank, 100 + rank, {}, "here"};
}

}  // namespace

TEST_CASE("the exit code follows from why the node's part of the job is over") {
    struct Row {
        Ending ending;
        int code;
        int as_torchrun;
    };
    const Row rows[] = {
        {a_result(0), 0, 0},
        {a_result(3), 3, 1},
        {a_result(exit_codes::crash_loop), 84, 1},
        {ServerGone{"refused for 1 s"}, 81, 1},
        {NodeRefused{"nnodes differ"}, 83, 1},
        {InternalError{"no port"}, 1, 1},
        {NodeLeft{SIGTERM, "stopped by SIGTERM"}, 143, 1},
        {NodeLeft{SIGTERM, "drained by ddprunctl", NodeLeft::By::drain}, 85, 1},
        {NodeLeft{SIGTERM, "node1 is unfit: ECC errors", NodeLeft::By::unfit}, 89, 1},
        {NodeLeft{SIGINT, "interrupted by SIGINT"}, 130, 1},
    };
    for (const auto& row : rows) {
        CHECK(exit_code_of(row.ending, false) == row.code);
        CHECK(exit_code_of(row.ending, true) == row.as_torchrun);
    }
}

TEST_CASE("a report has the server's cause, or else the node's own reason") {
    AgentConfig config;
    config.join.run_id = "job";
    auto result = a_result(3);
    result.root_cause.emplace().reason = "rank 1 exited with code 3";

    const auto judged = report_of(result, config, {});
    CHECK(judged.outcome == ctl::Outcome::failed);
    CHECK(judged.exit_code == 3);
    CHECK(judged.root_cause == result.root_cause);
    CHECK(judged.reason.empty());

    const auto alone = report_of(ServerGone{"no answer for 600 s"}, config, {});
    CHECK(alone.outcome == ctl::Outcome::failed);
    CHECK(alone.reason == "no answer for 600 s");
    CHECK_FALSE(alone.root_cause);

    CHECK(report_of(NodeLeft{SIGTERM, ""}, config, {}).outcome == ctl::Outcome::cancelled);
}

TEST_CASE("where nodes did not meet the report has a next step") {
    AgentConfig config;
    config.join.run_id = "none";
    config.join.nodes = {2, 2, 0};
    config.rendezvous.endpoint = {"node1", 29'400};
    auto result = a_result(80);
    result.root_cause.emplace().kind = ctl::Cause::Kind::no_node_joined;

    CHECK(
        report_of(result, config, {}).next_step ==
        "on each missing node: ddprun --nnodes=2 --rdzv-endpoint=node1:29400 ...");
    CHECK(report_of(ServerGone{"refused", "start it"}, config, {}).next_step == "start it");
    CHECK(report_of(a_result(3), config, {}).next_step.empty());
}

TEST_CASE("a report names each failed rank once, this node's first, without the root cause") {
    auto result = a_result(3);
    result.root_cause.emplace().worker.emplace().rank = 1;
    result.secondary_failures = {at_rank(0), at_rank(9)};

    const auto report = report_of(result, {}, {{at_rank(1), at_rank(0)}, {at_rank(2)}});

    CHECK(report.secondary_failures == std::vector{at_rank(0), at_rank(9)});
    CHECK(report.stopped == std::vector{at_rank(2)});
}
