// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

/// The words of the first line with this beginning, or "".
std::string line_with(const Lines& lines, const std::string& beginning) {
    for (const auto& line : lines)
        if (line.starts_with(beginning)) return line;
    return {};
}

}  // namespace

TEST_CASE("a node whose connection ends is lost half a second later, and no budget is spent") {
    Story job{"1:2"};
    job.run("a b");

    job.drop("b");
    job.pass(499ms);
    CHECK(job.output() == Lines{});
    job.pass(1ms);
    CHECK(
        job.output() == Lines{
                            "draining: node b (pid 100) was lost: its connection ended",
                            "a stop round=0 SIGTERM grace=30s \"node b (pid 100) was lost: its "
                            "connection ended\""});
    job.ready("a");
    CHECK(
        job.output() ==
        Lines{
            "forming: node b (pid 100) was lost: its connection ended",
            "running: round 1 complete: 1 node, 2 workers (every remaining node of "
            "the last round is ready)",
            "a assignment round=1 group_rank=0/1 rank_base=0 world_size=2 restarts=0 "
            "master=10.0.0.97:21097"});
    CHECK(job.status().round_because == "node b (pid 100) was lost: its connection ended");
}

TEST_CASE("a node that resumes in time was never away") {
    Story job{"2"};
    job.run("a b");
    job.drop("b");
    job.pass(400ms);

    job.resume("b", NodeState::running);

    CHECK(
        job.output() ==
        Lines{
            "b resumed",
            "b assignment round=0 group_rank=1/2 rank_base=2 world_size=4 restarts=0 "
            "master=10.0.0.97:20097"});
    job.pass(10s, "a b");
    CHECK(job.output() == Lines{});
}

TEST_CASE("what a replaced connection still delivers has no effect, its end included") {
    Story job{"2"};
    job.run("a b");
    const auto old = job.connection("b");

    job.resume("b", NodeState::running);
    CHECK(
        job.output() ==
        Lines{
            "b closed: replaced by a newer connection",
            "b resumed",
            "b assignment round=0 group_rank=1/2 rank_base=2 world_size=4 restarts=0 "
            "master=10.0.0.97:20097"});

    job.post(Coordinator::Received{old, control::Succeeded{0}});
    job.post(Coordinator::Disconnected{old});
    job.pass(5s, "a b");
    CHECK(job.output() == Lines{});
    job.succeeded("a b");
    CHECK(job.result("a") == "result succeeded exit_code=0");
}

TEST_CASE("a silent node is lost when its lease ends, and gets lost") {
    Story job{"1:2"};
    job.run("a b");

    job.pass(29s, "a");
    CHECK(
        job.output() ==
        Lines{
            "running: node b (pid 100) has been silent for 3 s: lost in 27 s unless it is heard"});
    CHECK(job.status().nodes[1].reason == "silent for 29 s: lost in 1 s unless it is heard");
    job.pass(1s, "a");
    const std::string why = "node b (pid 100) was lost: nothing was heard of it for 30 s";
    CHECK(
        job.output() == Lines{
                            "b lost \"" + why + "\"",
                            "b closed: " + why,
                            "draining: " + why,
                            "a stop round=0 SIGTERM grace=30s \"" + why + "\""});
}

TEST_CASE("a node behind a proxy is not lost by the end of its connection") {
    Story job{"1:2"};
    job.join("a");
    job.join("b", [](control::Join& join) { join.socket_addr = "192.168.0.7:1234"; });
    job.output();

    job.drop("b");
    job.pass(29s, "a");
    CHECK(
        job.output() ==
        Lines{
            "running: node b (pid 100) has been silent for 3 s: lost in 27 s unless it is heard"});
    job.pass(1s, "a");
    CHECK(job.status().state == "draining");
}

TEST_CASE("a lost node is the root cause even when a peer's error arrives before it") {
    Story job{"1:2", 0};
    job.run("a b");

    job.failed("a");
    job.drop("b");
    job.ready("a");
    CHECK(job.status().state == "draining");
    job.pass(500ms, "a");

    CHECK(job.status().state == "running");
    CHECK(job.status().restarts_used == 0);
    CHECK(job.assignment("a").round == 1);
}

TEST_CASE("nodes of a fixed size wait for a replacement, then fail with 82") {
    Story job{"2"};
    job.run("a b");
    job.drop("b");
    job.pass(500ms, "a");
    job.ready("a");
    CHECK(
        job.status().reason ==
        "node b (pid 100) was lost: its connection ended; waiting for 1 node (1 of 2 ready); the "
        "job fails in 600.0 s unless enough nodes come");

    SUBCASE("it comes") {
        job.join("c");
        CHECK(job.assignment("c").group_rank == 1);
        CHECK(job.assignment("c").round == 1);
    }
    SUBCASE("it does not") {
        job.output();
        job.pass(600s, "a");
        CHECK(
            job.result("a") ==
            "result failed exit_code=82 node_lost \"node b (pid 100) was lost: its connection "
            "ended; no replacement came within 600 s (1 of 2 nodes: a)\" host=b round=0");
    }
}

TEST_CASE("a job that waits for no replacement ends when its members have stopped") {
    Story job{"2", 1, [](control::Join& join) { join.settings.replacement_timeout = Duration{}; }};
    job.run("a b");
    job.drop("b");
    job.pass(500ms, "a");
    job.ready("a");
    CHECK(
        job.result("a") ==
        "result failed exit_code=82 node_lost \"node b (pid 100) was lost: its connection ended; "
        "no replacement is waited for (1 of 2 nodes: a)\" host=b round=0");
}

TEST_CASE("a restart waits for its members, replaced or not") {
    Story job{"2", 1, [](control::Join& join) { join.settings.replacement_timeout = Duration{}; }};
    job.run("a b");
    job.failed("a");
    job.ready("a");
    job.pass(20s, "a b");
    job.ready("b");
    CHECK(job.assignment("b").round == 1);
    job.output();

    // A silent node is a member as long as its lease lasts.
    job.pass(29s, "a");
    CHECK(job.status().state == "running");
    job.pass(1s, "a");
    job.ready("a", 1);
    CHECK(job.result("a").starts_with("result failed exit_code=82 node_lost"));
}

TEST_CASE("a job may wait for a replacement for a shorter time than for its first nodes") {
    Story job{"2", 0, [](control::Join& join) { join.settings.replacement_timeout = 7s; }};
    job.join("a");
    job.pass(599s, "a");
    job.join("b");
    job.started("a b");
    job.drop("b");
    job.pass(500ms, "a");
    job.ready("a");
    CHECK(job.status().reason.ends_with("the job fails in 7.0 s unless enough nodes come"));
    job.pass(7s, "a");
    CHECK(
        job.result("a").find("no replacement came within 7 s (1 of 2 nodes: a)") !=
        std::string::npos);
}

TEST_CASE("the time for a replacement may be longer than that for the first nodes") {
    Story job{"2", 1, [](control::Join& join) {
                  join.settings.join_timeout = 60s;
                  join.settings.replacement_timeout = 90s;
              }};
    job.run("a b");
    job.failed("a");
    job.ready("a");
    job.pass(20s, "a b");
    job.drop("b");
    job.pass(500ms, "a");
    job.pass(89s, "a");
    CHECK(job.status().state == "forming");
    job.pass(1s, "a");
    CHECK(job.result("a").find("no replacement came within 90 s") != std::string::npos);
}

TEST_CASE("a spare fills the hole in the same step") {
    Story job{"2:2+1"};
    job.run("a b");
    job.join("c");
    CHECK(
        line_with(job.output(), "c standby") ==
        "c standby \"spare: the job is full with 2 nodes, this one takes the next free place\"");

    job.drop("a");
    job.pass(500ms, "b c");
    job.ready("b");

    CHECK(job.assignment("b").group_rank == 0);
    CHECK(job.assignment("c").group_rank == 1);
    CHECK(job.assignment("c").master_port == 21098);
    job.succeeded("b c", 1);
    CHECK(job.result("c") == "result succeeded exit_code=0");
}

TEST_CASE("more lost rounds than allowed within an hour are a crash loop, 84") {
    Story job{"1:2", 0, [](control::Join& join) { join.settings.max_losses = 2; }};
    job.run("a");
    job.pass(30s, "a");
    for (int round = 0; round < 3; ++round) {
        job.join("b", [&](control::Join& join) {
            join.node.nonce = nonce_of("b" + std::to_string(round));
            join.node.host = "b" + std::to_string(round);
        });
        job.pass(1s, "a b");
        job.ready("a", 2 * round);
        const int joint = job.assignment("a").round;
        job.started("a b", joint);
        job.drop("b");
        job.pass(500ms, "a");
        job.ready("a", joint);
    }
    CHECK(
        job.result("a").starts_with("result failed exit_code=84 crash_loop \"nodes were lost in "
                                    "more than 2 rounds within an hour; last: node b"));
}

TEST_CASE("a node that is not ready when the drain is over is out of the round until it is") {
    Story job{"1:2"};
    job.run("a b");
    job.failed("a");
    job.ready("a");
    job.output();

    job.pass(34s, "a b");
    CHECK(job.output() == Lines{});
    job.pass(1s, "a b");
    CHECK(job.assignment("a").group_world_size == 1);
    CHECK(
        line_with(job.output(), "b standby") ==
        "b standby \"its workers of an earlier round are not gone\"");
    CHECK(job.status().nodes[1].state == "out");

    // Then it is a late node like any other.
    job.ready("b");
    job.pass(1s, "a b");
    job.ready("a", 1);
    CHECK(job.assignment("b").round == 2);
    CHECK(job.assignment("b").group_world_size == 2);
}

TEST_CASE("a server that slept starts all leases again") {
    Story job{"2"};
    job.run("a b");

    job.doze(100s);
    CHECK(job.output() == Lines{});
    job.pass(29s, "a");
    CHECK(
        job.output() ==
        Lines{
            "running: node b (pid 100) has been silent for 3 s: lost in 27 s unless it is heard"});
    job.pass(1s, "a");
    CHECK(job.status().state == "draining");
}

TEST_CASE("a node that succeeded and is then lost is not missed") {
    Story job{"2"};
    job.run("a b");
    job.succeeded("b");
    job.drop("b");
    job.pass(500ms, "a");
    CHECK(job.output() == Lines{});

    job.succeeded("a");
    CHECK(job.result("a") == "result succeeded exit_code=0");
}

TEST_CASE("it is missed when it hosts the store of members that still run") {
    Story job{"2"};
    job.run("a b");
    job.succeeded("a");
    job.drop("a");
    job.pass(500ms, "b");

    CHECK(job.status().state == "draining");
    job.ready("b");
    CHECK(job.status().state == "forming");
}

TEST_CASE("a node that was counted as lost must join again with a new nonce") {
    Story job{"1:2"};
    job.run("a b");
    job.drop("b");
    job.pass(500ms, "a");
    job.output();

    job.resume("b", NodeState::running);

    CHECK(
        job.output() ==
        Lines{
            "b lost \"the job went on without this node\"", "b closed: resumed after it was lost"});
}

TEST_CASE("an assignment that got lost with its connection is given again") {
    Story job{"2"};
    job.run("a b");
    job.failed("a");
    job.ready("a b");
    job.output();

    job.resume(
        "b", NodeState::ready, [](control::Resume& resume) { resume.assignment->round = 0; });

    CHECK(
        job.output() ==
        Lines{
            "b closed: replaced by a newer connection",
            "b resumed",
            "b assignment round=1 group_rank=1/2 rank_base=2 world_size=4 restarts=1 "
            "master=10.0.0.97:21097"});
}

TEST_CASE("a resume while draining brings the stop, a failure or the end of the workers") {
    Story job{"2"};
    job.run("a b");

    job.failed("a");
    job.output();
    job.resume("b", NodeState::running);
    const auto output = job.output();
    CHECK(output.size() == 3);
    CHECK(output.back().starts_with("b stop round=0 SIGTERM"));

    job.ready("a");
    job.resume("b", NodeState::ready);
    CHECK(job.assignment("b").round == 1);
}

TEST_CASE("a resume that reports a failure counts like the failure") {
    Story job{"2"};
    job.run("a b");
    job.drop("b");

    job.resume("b", NodeState::stopping, [](control::Resume& resume) {
        resume.failure = control::WorkerFailure{
            3, 1, 5, {control::WorkerEnd::Kind::killed, 9, false}, "killed by SIGKILL", "", false};
    });

    CHECK(job.status().reason == "rank 3 on b: killed by SIGKILL");
    job.ready("a b");
    CHECK(job.status().restarts_used == 1);
}

TEST_CASE("a node that killed its own workers ends the round without spending the budget") {
    Story job{"2"};
    job.run("a b");
    job.drop("b");

    job.resume("b", NodeState::ready);
    CHECK(job.status().reason == "node b (pid 100) stopped its workers on its own");
    job.ready("a");

    CHECK(job.assignment("b").round == 1);
    CHECK(job.status().restarts_used == 0);
}

TEST_CASE("a node whose first answer got lost joins again and gets everything") {
    Story job{"2"};
    job.join("a");
    job.join("b");
    job.output();

    job.join("b");

    CHECK(
        job.output() ==
        Lines{
            "b closed: replaced by a newer connection",
            "b welcome incarnation=61000000 lease=30s",
            "b assignment round=0 group_rank=1/2 rank_base=2 world_size=4 restarts=0 "
            "master=10.0.0.97:20097"});
}

TEST_CASE("a node that may not have heard the stop is waited for until it is lost or has had it") {
    Story job{"1:3", 1, [](control::Join& join) { join.settings.grace = 1s; }};
    job.run("a b c");
    job.failed("a");
    job.ready("a b");

    SUBCASE("it stays silent: its fence ends before its ranks are given away") {
        job.pass(29s, "a b");
        CHECK(job.status().state == "draining");
        job.pass(1s, "a b");
        CHECK(job.assignment("a").group_world_size == 2);
    }
    SUBCASE("it is heard again before the check: it has all its time from then on") {
        job.pass(5s, "a b");
        job.pass(5s, "a b c");
        CHECK(job.status().state == "draining");
        job.pass(3s, "a b c");
        CHECK(job.status().nodes[2].state == "out");
    }
    SUBCASE("it is heard again: it has all its time again, and then it is out") {
        job.pass(10s, "a b");
        job.pass(5s, "a b c");
        CHECK(job.status().state == "draining");
        job.pass(3s, "a b c");
        CHECK(job.assignment("a").group_world_size == 2);
        CHECK(job.status().nodes[2].state == "out");
    }
}

TEST_CASE(
    "a first node that never got its assignment takes the round up and stops it: its store is "
    "used") {
    Story job{"2"};
    job.run("a b");
    job.failed("b");
    job.output();

    job.resume("a", NodeState::ready, [](control::Resume& resume) { resume.assignment.reset(); });

    const auto output = job.output();
    REQUIRE(output.size() == 4);
    CHECK(output[1] == "a resumed");
    CHECK(output[2].starts_with("a assignment round=0 group_rank=0/2"));
    CHECK(output[3].starts_with("a stop round=0"));
    job.ready("a b");
    CHECK(job.assignment("b").round == 1);
    CHECK(job.assignment("b").master_port == 21097);
}

TEST_CASE(
    "a node that joins or resumes twice on one connection is closed, and missed like any other") {
    control::Resume resume;
    for (const control::AgentMessage& second :
         std::vector<control::AgentMessage>{control::Join{}, resume}) {
        Story job{"1"};
        job.run("a");

        job.say("a", second);
        job.pass(500ms);

        CHECK_FALSE(
            line_with(job.output(), "forming: node a (pid 100) was lost: its connection ended")
                .empty());
    }
}

TEST_CASE("a server is idle when the last one was closed for joining twice") {
    Story job{"1"};
    job.run("a");
    job.succeeded("a");
    CHECK_FALSE(job.coordinator().is_idle());

    job.say("a", control::Join{});

    CHECK(job.coordinator().is_idle());
}

TEST_CASE("a node has one failure in a round, and the next ones have no effect") {
    Story job{"2"};
    job.run("a b");
    job.failed("b");

    job.failed_with("b", 0, 5s, [](control::WorkerFailure& failure) { failure.message = "older"; });

    CHECK(job.coordinator().stale_count() == 1);
    job.output();
    job.ready("a b");
    CHECK(
        line_with(job.output(), "forming:") ==
        "forming: restart 1 of 3: rank 2 on b: exited with code 7");
}

TEST_CASE(
    "when the first node joins again with another store, the round that has its old one ends") {
    Story job{"2"};
    job.join("a");
    job.join("b");
    job.output();

    job.join("a", [](control::Join& join) { join.store_port = 22'000; });
    CHECK(
        job.output() ==
        Lines{
            "a closed: replaced by a newer connection",
            "a welcome incarnation=61000000 lease=30s",
            "draining: node a (pid 100) joined again with another store",
            "b stop round=0 SIGTERM grace=30s \"node a (pid 100) joined again with another store\"",
            "a standby \"between two rounds: node a (pid 100) joined again with another store\""});

    job.ready("b");
    CHECK(job.assignment("a").round == 1);
    CHECK(job.assignment("a").group_rank == 0);
    CHECK(job.assignment("b").master_port == 22'000);
}

TEST_CASE("another store of a node that is not the first changes nothing in the round") {
    Story job{"2"};
    job.join("a");
    job.join("b");
    job.output();

    job.join("b", [](control::Join& join) { join.store_port = 22'000; });

    CHECK(
        job.output() ==
        Lines{
            "b closed: replaced by a newer connection",
            "b welcome incarnation=61000000 lease=30s",
            "b assignment round=0 group_rank=1/2 rank_base=2 world_size=4 restarts=0 "
            "master=10.0.0.97:20097"});
}

TEST_CASE("a new store that comes while the round drains is waited for no longer") {
    Story job{"2"};
    job.join("a");
    job.join("b");
    job.failed("b");
    job.ready("b");
    job.output();

    job.join("a", [](control::Join& join) { join.store_port = 22'000; });

    CHECK(job.assignment("b").round == 1);
    CHECK(job.assignment("b").master_port == 22'000);
}

TEST_CASE("a failure reported with a resume keeps its age and its kind") {
    Story job{"2"};
    job.run("a b");
    job.drop("b");
    job.failed("a");

    job.resume("b", NodeState::stopping, [](control::Resume& resume) {
        resume.failure.emplace();
        resume.failure->message = "no way to the store";
        resume.age = 400ms;
        resume.kind = control::Cause::Kind::store_unreachable;
    });

    job.output();
    job.ready("a b");
    CHECK(
        line_with(job.output(), "forming:") ==
        "forming: restart 1 of 3: node b (pid 100): no way to the store");
}
