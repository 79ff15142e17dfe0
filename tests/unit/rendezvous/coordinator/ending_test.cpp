// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/text.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <cerrno>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

using End = control::WorkerEnd;

void die(Story& job, const std::string& node, End end, Duration age = 1ms, int round = 0) {
    job.failed_with(node, round, age, [&](control::WorkerFailure& failure) {
        failure.end = end;
        failure.message = control::describe(end);
    });
}

int exit_code_after(End end) {
    Story job{"1", 0};
    job.run("a");
    die(job, "a", end);
    job.ready("a");
    const auto result = job.result("a");
    const auto at = result.find("exit_code=");
    return at == std::string::npos ? -1 : std::stoi(result.substr(at + 10));
}

}  // namespace

TEST_CASE("the budget is the job's: when it is spent the root cause ends it on every node") {
    Story job{"2", 1};
    job.run("a b");
    job.failed("a");
    job.ready("a b");
    job.started("a b", 1);
    job.failed("b", 1);
    job.output();

    job.ready("a b", 1);

    const std::string why =
        "result failed exit_code=7 worker_failed \"rank 2 on b: exited with code 7\" host=b "
        "round=1";
    CHECK(job.output() == Lines{"failed: rank 2 on b: exited with code 7", "a " + why, "b " + why});
}

TEST_CASE("the earliest failure is the cause, however late it arrives; secondary ones come last") {
    Story job{"3", 0};
    job.run("a b c");

    job.failed_with("a", 0, 1ms, [](control::WorkerFailure& failure) {
        failure.is_secondary = true;
        failure.message = "peer lost";
    });
    job.pass(100ms);
    job.failed_with("b", 0, 10ms, [](auto& failure) { failure.message = "second"; });
    job.failed_with("c", 0, 50ms, [](auto& failure) { failure.message = "first"; });
    job.ready("a b c");

    CHECK(
        job.result("a") ==
        "result failed exit_code=7 worker_failed \"rank 4 on c: first\" host=c round=0");
}

TEST_CASE("a node's crash replaces its own secondary failure, and nothing else does") {
    Story job{"2", 0};
    job.run("a b");

    job.failed_with("a", 0, 1ms, [](control::WorkerFailure& failure) {
        failure.is_secondary = true;
        failure.message = "peer lost";
    });
    job.failed_with("a", 0, 0ms, [](auto& failure) { failure.message = "crash"; });
    job.failed_with("a", 0, 1s, [](auto& failure) { failure.message = "later word"; });
    job.ready("a b");

    CHECK(
        job.result("a") ==
        "result failed exit_code=7 worker_failed \"rank 0 on a: crash\" host=a round=0");
}

TEST_CASE("details of a failure come with the result, not with the stop") {
    Story job{"1", 0};
    job.run("a");
    std::vector<Coordinator::Effect> effects;
    control::WorkerFailure failure;
    failure.details = "Traceback";

    job.coordinator().handle(
        Coordinator::Received{job.connection("a"), control::Failed{0, {}, failure, {}}},
        Instant{},
        effects);
    const auto& stop = std::get<control::Stop>(std::get<Send>(effects.at(1)).message);
    CHECK(stop.root_cause.worker->details.empty());

    effects.clear();
    job.coordinator().handle(
        Coordinator::Received{job.connection("a"), control::Ready{0, 1, 2}}, Instant{}, effects);
    const auto& result = std::get<control::JobResult>(std::get<Send>(effects.at(1)).message);
    CHECK(result.root_cause->worker->details == "Traceback");
}

TEST_CASE("the result names each node's other failure, so that all reports can say the same") {
    Story job{"2", 0};
    job.run("a b");
    std::vector<Coordinator::Effect> effects;
    const auto says = [&](const std::string& node, control::AgentMessage message) {
        effects.clear();
        job.coordinator().handle(
            Coordinator::Received{job.connection(node), std::move(message)}, Instant{}, effects);
    };
    control::WorkerFailure first;
    first.rank = 1;
    control::WorkerFailure second{2, 0, 77, {End::Kind::killed, SIGABRT, true}, "", ""};

    says("b", control::Failed{0, 1ms, second, {}});
    says("a", control::Failed{0, 5ms, first, {}});
    says("a", control::Ready{0, 1, 2});
    says("b", control::Ready{0, 1, 2});

    std::vector<control::JobResult> results;
    for (const auto& effect : effects)
        if (const auto* send = std::get_if<Send>(&effect))
            if (const auto* result = std::get_if<control::JobResult>(&send->message))
                results.push_back(*result);
    REQUIRE(results.size() == 2);
    const std::vector<control::EndedWorker> expected{
        {2, 0, 77, {End::Kind::killed, SIGABRT, true}, "b"}};
    CHECK(results[0].root_cause->worker->rank == 1);
    CHECK(results[0].secondary_failures == expected);
    CHECK(results[1] == results[0]);
}

TEST_CASE("the root cause's own code is the job's") {
    CHECK(exit_code_after({End::Kind::exited, 3, false}) == 3);
    CHECK(exit_code_after({End::Kind::exited, 255, false}) == 255);
    CHECK(exit_code_after({End::Kind::killed, SIGSEGV, true}) == 139);
    CHECK(exit_code_after({End::Kind::killed, SIGKILL, false}) == 137);
    CHECK(exit_code_after({End::Kind::not_executed, ENOENT, false}) == 127);
    CHECK(exit_code_after({End::Kind::not_executed, EACCES, false}) == 126);
}

TEST_CASE("a program that cannot be executed is never tried again") {
    Story job{"2", 3};
    job.run("a b");
    die(job, "a", {End::Kind::not_executed, ENOENT, false});
    job.ready("a b");
    CHECK(job.status().state == "failed");
    CHECK(job.result("b").starts_with("result failed exit_code=127 not_executable"));
}

TEST_CASE("a store that a node cannot reach costs a restart and names the node") {
    Story job{"2", 0};
    job.run("a b");
    control::WorkerFailure failure;
    failure.message = "no answer from 10.0.0.97:20097; give --local-addr";
    job.say("b", control::Failed{0, {}, failure, control::Cause::Kind::store_unreachable});
    job.ready("a b");

    CHECK(
        job.result("a") ==
        "result failed exit_code=1 store_unreachable \"node b (pid 100): no answer from "
        "10.0.0.97:20097; give --local-addr\" host=b round=0");
    const auto& cause = job.whole_result("a").root_cause;
    REQUIRE(cause);
    CHECK_FALSE(cause->worker);
}

TEST_CASE("SIGINT on one node cancels the job on every node with 130") {
    Story job{"2"};
    job.run("a b");

    job.leave("b", SIGINT);
    CHECK(
        job.output() == Lines{
                            "draining: SIGINT on b",
                            "a stop round=0 SIGINT grace=30s \"SIGINT on b\"",
                            "b stop round=0 SIGINT grace=30s \"SIGINT on b\""});
    job.ready("a b");
    CHECK(
        job.output() == Lines{
                            "cancelled: SIGINT on b",
                            "a result cancelled exit_code=130 cancelled \"SIGINT on b\" round=0",
                            "b result cancelled exit_code=130 cancelled \"SIGINT on b\" round=0"});
}

TEST_CASE("one node that gets SIGTERM drains the round and is left out, and no restart is spent") {
    Story job{"1:2"};
    job.run("a b");

    job.leave("b", SIGTERM);
    const std::string why = "node b (pid 100) leaves: SIGTERM on b";
    CHECK(
        job.output() == Lines{
                            "draining: " + why,
                            "a stop round=0 SIGTERM grace=30s \"" + why + "\"",
                            "b stop round=0 SIGTERM grace=30s \"" + why + "\""});
    job.ready("b");
    job.drop("b");
    job.ready("a");

    CHECK(job.assignment("a").round == 1);
    CHECK(job.assignment("a").group_world_size == 1);
    CHECK(job.status().restarts_used == 0);
}

TEST_CASE("when every node leaves the job is cancelled and no round begins") {
    Story job{"2", 3};
    job.run("a b");

    job.leave("a", SIGTERM);
    // A worker that dies of the same signal is no failure to restart for.
    job.failed("b");
    job.ready("a");
    job.leave("b", SIGTERM);
    job.ready("b");

    const std::string why =
        "result cancelled exit_code=143 cancelled \"every node left; first: node a (pid 100) "
        "leaves: SIGTERM on a\" host=a round=0";
    CHECK(job.result("a") == why);
    CHECK(job.result("b") == why);
}

TEST_CASE("nodes that leave one after another before there is a round cancel the job") {
    Story job{"3"};
    job.join("a");
    job.join("b");
    job.leave("a", SIGHUP);
    CHECK(job.status().state == "forming");
    job.drop("a");
    job.leave("b", SIGHUP);
    CHECK(job.result("b").starts_with("result cancelled exit_code=129"));
}

TEST_CASE("a hosting ddprun that is stopped ends the job on every node") {
    Story job{"2"};
    job.is_hosted();
    job.run("a b");

    job.interrupt(SIGTERM);
    CHECK(
        job.output() == Lines{
                            "draining: stopped by SIGTERM",
                            "a stop round=0 SIGTERM grace=30s \"stopped by SIGTERM\"",
                            "b stop round=0 SIGTERM grace=30s \"stopped by SIGTERM\""});
    job.ready("a b");
    CHECK(job.result("b").starts_with("result cancelled exit_code=143"));

    job.join("c");
    CHECK(job.output().back() == "c closed: refused: the server ends: stopped by SIGTERM");
}

TEST_CASE("a node whose command ends the job ends it on every node, by the signal it names") {
    Story job{"2"};
    job.run("a b");

    job.say("a", control::Leave{"stopped by ddprunctl", SIGTERM, true, 5s});
    CHECK(
        job.output() == Lines{
                            "draining: stopped by ddprunctl",
                            "a stop round=0 SIGTERM grace=5s \"stopped by ddprunctl\"",
                            "b stop round=0 SIGTERM grace=5s \"stopped by ddprunctl\""});
    job.ready("a b");
    CHECK(job.result("b").starts_with("result cancelled exit_code=143"));
    CHECK(job.whole_result("b").root_cause->reason == "stopped by ddprunctl");
}

TEST_CASE("no command gives the workers more time than the job does") {
    Story job{"2"};
    job.run("a b");
    job.say("b", control::Leave{"stopped by ddprunctl", SIGTERM, true, 1000s});
    CHECK(job.output()[1] == "a stop round=0 SIGTERM grace=30s \"stopped by ddprunctl\"");
}

TEST_CASE("a shorter grace of a command holds for workers that are being stopped already") {
    Story job{"2"};
    job.run("a b");
    job.failed("a");
    job.output();
    const auto command = [&](Duration grace) {
        job.say("b", control::Leave{"stopped by ddprunctl", SIGTERM, true, grace});
        return job.output();
    };
    CHECK(
        command(5s) == Lines{
                           "draining: stopped by ddprunctl",
                           "a stop round=0 SIGTERM grace=5s \"stopped by ddprunctl\"",
                           "b stop round=0 SIGTERM grace=5s \"stopped by ddprunctl\""});
    // The order to end the job is given once.
    CHECK(command(1s).empty());
    job.ready("a b");
    CHECK(job.result("b").starts_with("result cancelled exit_code=143"));

    Story other{"2"};
    other.run("a b");
    other.failed("a");
    other.output();
    other.say("b", control::Leave{"stopped by ddprunctl", SIGTERM, true, 1000s});
    CHECK(other.output() == Lines{"draining: stopped by ddprunctl"});
}

TEST_CASE("an interrupt before the first round ends the job at once") {
    Story job{"2"};
    job.is_hosted();
    job.join("a");
    job.interrupt(SIGINT);
    CHECK(job.result("a").starts_with("result cancelled exit_code=130"));
}

TEST_CASE("success needs every member, and a finished one restarts with the others") {
    Story job{"2", 1};
    job.run("a b");
    job.succeeded("a");
    job.failed("b");
    CHECK(job.output()[1].starts_with("a stop"));
    job.ready("a b");
    job.started("a b", 1);
    job.succeeded("a b", 1);
    CHECK(job.result("a") == "result succeeded exit_code=0");
}

TEST_CASE("workers that were done before the stop for a late node arrived have succeeded") {
    Story job{"1:2"};
    job.run("a");
    job.pass(30s, "a");
    job.started("a");
    job.join("b");
    job.pass(1s, "a b");
    CHECK(job.status().state == "draining");

    job.succeeded("a");

    CHECK(job.result("a") == "result succeeded exit_code=0");
    CHECK(job.result("b") == "result succeeded exit_code=0");
}

TEST_CASE("a resume is answered with the result, a join with the next job") {
    Story job{"2", 0};
    job.run("a b");
    job.drop("b");
    job.failed("a");
    job.ready("a");
    job.resume("b", NodeState::ready);
    job.output();
    CHECK(job.result("b").starts_with("result failed exit_code=7"));

    const auto fresh = [](control::Join& join) { join.node.nonce = nonce_of("new"); };
    job.join("a", fresh);

    CHECK(
        job.output() ==
        Lines{
            "a welcome incarnation=6e657700 lease=30s",
            "a standby \"a new job begins; the one before it under this id failed (rank 0 on a: "
            "exited with code 7, exit code 7)\"",
            "forming: waiting for 1 node (1 of 2 ready)"});
}

TEST_CASE("a job that is over is forgotten when no node can come back") {
    Story job{"2", 0};
    job.run("a b");
    job.succeeded("a b");
    job.drop("a");
    job.drop("b");
    job.output();

    job.pass(29s);
    job.resume("b", NodeState::succeeded);
    CHECK(job.output() == Lines{"b resumed", "b result succeeded exit_code=0"});
    job.pass(1s);
    CHECK(job.coordinator().status({}).empty());
    CHECK(job.coordinator().next_deadline() == std::nullopt);
}

TEST_CASE("a hosting ddprun whose job is over begins no other") {
    Story job{"1", 0};
    job.is_hosted();
    job.run("a");
    job.succeeded("a");
    job.output();
    job.join("b");
    CHECK(
        job.output().front() ==
        "b refused \"job 'job' of this ddprun succeeded (every node succeeded, exit code 0)\" "
        "retry=1s");

    job.drop("a");
    job.pass(61s);
    REQUIRE(job.coordinator().status({}).empty());
    job.join("b");
    CHECK(job.output().front() == "b refused \"job 'job' of this ddprun is over\" retry=1s");
}

TEST_CASE("a node that begins two jobs under one nonce gives them two incarnations") {
    Story job{"1", 0};
    job.run("a");
    job.succeeded("a");
    job.output();
    job.join("a");
    CHECK(job.output().front() == "a welcome incarnation=61000000 lease=0s");
    CHECK(job.status().incarnation == nonce_of("a").to_short_string() + "-2");
}

TEST_CASE("a node that begins a job under the nonce of one that is forgotten begins another") {
    Story job{"1"};
    job.join("a");
    job.succeeded("a");
    job.drop("a");
    job.pass(61s);
    REQUIRE(job.coordinator().status(Instant{}).empty());

    job.join("a");
    CHECK(job.status().incarnation == nonce_of("a").to_short_string() + "-2");
}
