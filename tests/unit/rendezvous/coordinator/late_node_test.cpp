// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <signal.h>

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

/// `a` and `b` run a round of a job for two to four nodes.
Story two_of_four(control::LateNodes policy) {
    Story job{"2:4", 3, [=](control::Join& join) { join.settings.late_nodes = policy; }};
    job.join("a");
    job.join("b");
    job.pass(30s, "a b");
    job.started("a b");
    job.output();
    return job;
}

Story::Tweak under_another_name(int number) {
    return [=](control::Join& join) { join.node.nonce = nonce_of("n" + std::to_string(number)); };
}

Story::Tweak at_host(const std::string& host, int number) {
    return [=](control::Join& join) {
        join.node.nonce = nonce_of("n" + std::to_string(number));
        join.node.host = host;
    };
}

/// This node is admitted by a restart of this round of `a` and `b`.
void come(Story& job, const std::string& node, int round) {
    job.join(node, under_another_name(round));
    job.pass(1s, "a b " + node);
    job.ready("a b", round);
    job.started("a b " + node, round + 1);
}

/// The same, and the node is lost at once: two more rounds.
void come_and_go(Story& job, const std::string& node, int round) {
    come(job, node, round);
    job.drop(node);
    job.pass(500ms, "a b");
    job.ready("a b", round + 1);
    job.started("a b", round + 2);
}

}  // namespace

TEST_CASE("a late node is let in by a restart one second after the last arrival") {
    auto job = two_of_four(control::LateNodes::restart);

    job.join("c");
    CHECK(
        job.output() == Lines{
                            "c welcome incarnation=61000000 lease=30s",
                            "c standby \"the job restarts in a moment to let this node in\""});
    job.pass(900ms);
    job.join("d");
    job.pass(900ms);
    CHECK(job.output().size() == 2);
    job.pass(100ms);
    const std::string why = "restart to let in c (pid 100) and 1 other node";
    CHECK(
        job.output() == Lines{
                            "draining: " + why,
                            "a stop round=0 SIGTERM grace=30s \"" + why + "\"",
                            "b stop round=0 SIGTERM grace=30s \"" + why + "\""});
    job.ready("a b");
    CHECK(job.assignment("d").group_world_size == 4);
    CHECK(job.status().restarts_used == 0);
}

TEST_CASE("late nodes are let in by whole units, and no more than there is room for") {
    Story job{"2:4", 3, [](control::Join& join) { join.nodes.unit = 2; }};
    job.join("a");
    job.join("b");
    job.pass(30s, "a b");
    job.started("a b");
    job.join("c");
    CHECK(
        job.output().back() ==
        "c standby \"the job runs with 2 nodes and grows by 2 at a time (--node-unit): 1 more "
        "needed\"");
    job.pass(10s, "a b c");
    CHECK(job.status().state == "running");
    job.join("d");
    job.join("e");
    CHECK(job.output().back() == "e standby \"the job restarts in a moment to let this node in\"");
    SUBCASE("one of them is gone before the restart, and the other two get in") {
        job.drop("d");
        job.pass(1s, "a b c e");
        job.ready("a b");
        CHECK(job.assignment("e").group_world_size == 4);
    }
    SUBCASE("two of them are gone before the restart: there is none") {
        job.drop("d");
        job.drop("e");
        job.pass(2s, "a b c");
        CHECK(job.status().state == "running");
        CHECK(job.status().round == 0);
    }
    SUBCASE("the reason names as many as get in") {
        job.pass(1s, "a b c d e");
        CHECK(job.status().reason == "restart to let in c (pid 100) and 1 other node");
    }
}

TEST_CASE("nodes that keep arriving put the restart off for five seconds at most") {
    Story job{"1:9"};
    job.join("a");
    job.pass(30s, "a");
    job.started("a");
    for (const auto* node : {"b", "c", "d", "e", "f", "g"}) {
        CHECK(job.status().state == "running");
        job.join(node);
        job.pass(900ms, "a");
    }
    CHECK(job.status().state == "draining");
}

TEST_CASE("a late node that goes again before the restart changes nothing") {
    auto job = two_of_four(control::LateNodes::restart);
    job.join("c");
    job.pass(400ms);
    job.drop("c");
    job.output();
    job.pass(2s, "a b");
    CHECK(job.output() == Lines{"running: node c (pid 100) was lost: its connection ended"});
}

TEST_CASE("with at-restart a late node waits for the next restart") {
    auto job = two_of_four(control::LateNodes::at_restart);
    job.join("c");
    CHECK(
        job.output().back() ==
        "c standby \"the job runs with 2 nodes; this one gets in at the next restart\"");
    job.pass(20s, "a b c");
    CHECK(job.output() == Lines{});
    job.failed("a");
    job.ready("a b");
    CHECK(job.assignment("c").group_world_size == 3);
}

TEST_CASE("with never a late node only takes the place of a lost one") {
    auto job = two_of_four(control::LateNodes::never);
    job.join("c");
    job.failed("a");
    job.ready("a b");
    CHECK(job.assignment("a").group_world_size == 2);

    job.drop("a");
    job.pass(500ms, "b c");
    job.ready("b", 1);
    CHECK(job.assignment("b").group_rank == 0);
    CHECK(job.assignment("c").group_rank == 1);
}

TEST_CASE("a host that goes twice within ten minutes stands by for 30 s, and is let in then") {
    auto job = two_of_four(control::LateNodes::restart);
    come_and_go(job, "c", 0);
    come_and_go(job, "c", 2);

    job.output();
    job.join("c", under_another_name(9));
    const std::string why =
        "its host was lost or left more than once within 10 min: it stands by for 30 s, unless it "
        "is needed";
    CHECK(
        job.output() == Lines{
                            "c welcome incarnation=61000000 lease=30s",
                            "running: node c (pid 100): " + why,
                            "c standby \"" + why + "\""});
    CHECK(job.status().nodes.back().reason == why + " (30.0 s left)");
    job.pass(29s, "a b c");
    CHECK(job.output() == Lines{});
    CHECK(job.status().nodes.back().reason == why + " (1.0 s left)");

    job.pass(1s, "a b c");
    CHECK(job.output() == Lines{"c standby \"the job restarts in a moment to let this node in\""});
    job.pass(1s, "a b c");
    CHECK(job.status().state == "draining");
    job.ready("a b", 4);
    CHECK(job.assignment("c").round == 5);
}

TEST_CASE("a host that stands by is passed over while there are enough without it") {
    auto job = two_of_four(control::LateNodes::restart);
    come_and_go(job, "c", 0);
    come_and_go(job, "c", 2);
    job.join("c", under_another_name(9));

    job.failed("a", 4);
    job.ready("a b", 4);
    CHECK(job.assignment("a").round == 5);
    CHECK(job.assignment("a").group_world_size == 2);

    job.started("a b", 5);
    job.drop("b");
    job.pass(500ms, "a c");
    job.ready("a", 5);
    CHECK(job.assignment("c").round == 6);
    CHECK(job.assignment("c").group_world_size == 2);
}

TEST_CASE("a host with other nodes in the round is not the one that comes and goes") {
    Story job{"2:4"};
    job.join("a", at_host("one", 7));
    job.join("b", at_host("one", 8));
    job.pass(30s, "a b");
    job.started("a b");
    for (const int round : {0, 2}) {
        job.join("c", at_host("one", round));
        job.pass(1s, "a b c");
        job.ready("a b", round);
        job.started("a b c", round + 1);
        job.drop("c");
        job.pass(500ms, "a b");
        job.ready("a b", round + 1);
        job.started("a b", round + 2);
    }
    REQUIRE(job.status().round == 4);

    job.join("c", at_host("one", 9));
    CHECK(job.output().back() == "c standby \"the job restarts in a moment to let this node in\"");
}

TEST_CASE("a host that left twice stands by like one that was lost") {
    auto job = two_of_four(control::LateNodes::restart);
    for (const int round : {0, 2}) {
        come(job, "c", round);
        job.leave("c", SIGTERM);
        job.ready("a b c", round + 1);
        job.drop("c");
        job.started("a b", round + 2);
    }
    job.join("c", under_another_name(9));
    CHECK(job.output().back().starts_with("c standby \"its host was lost or left more than once"));
}

TEST_CASE("when the first workers are done no restart is made for a late node") {
    auto job = two_of_four(control::LateNodes::restart);
    job.succeeded("a");
    job.join("c");
    CHECK(
        job.output().back() ==
        "c standby \"the first workers have finished: the job does not restart for one more\"");
    job.pass(10s, "a b c");
    CHECK(job.output() == Lines{});
    job.succeeded("b");
    CHECK(job.result("c") == "result succeeded exit_code=0");
}

TEST_CASE("a node too many for a fixed size is refused with the members and the way out") {
    Story job{"2"};
    job.run("a b");
    job.pass(1s, "a b");
    job.pass(100ms);
    job.join("c");
    job.output();

    // Both are heard once more.
    job.pass(2s, "a b c");

    const std::string why =
        "job 'job' is complete with 2 nodes (a, b); for one more start all with --nnodes=3";
    CHECK(job.output() == Lines{"c refused \"" + why + "\"", "c closed: refused: " + why});
}

TEST_CASE("a restarted node stands by until its old incarnation is known to be gone") {
    Story job{"2"};
    job.run("a b");
    job.pass(1s, "a b");
    job.pass(100ms);
    job.join("b2");
    // The connection of b's old incarnation is still there; nothing comes over it any more.
    job.pass(2s, "a b2");
    job.drop("b");
    job.pass(500ms, "a b2");

    job.ready("a");

    CHECK(job.assignment("b2").group_rank == 1);
}

TEST_CASE("it stands by while a member may be lost, and takes its place or is refused then") {
    Story job{"2"};
    job.run("a b");
    job.drop("b");
    job.join("c");
    CHECK(
        job.output().back() ==
        "c standby \"the job is full with 2 nodes; waiting to know that all of them are there\"");

    SUBCASE("the member is lost") {
        job.pass(500ms, "a c");
        job.ready("a");
        CHECK(job.assignment("c").group_rank == 1);
    }
    SUBCASE("the member comes back") {
        job.resume("b", control::NodeState::running);
        CHECK(job.output().back().starts_with("c closed: refused"));
    }
    SUBCASE("the member was silent and speaks again") {
        job.resume("b", control::NodeState::running);
        job.pass(5s, "a");
        job.output();
        job.join("d");
        CHECK(job.output().back().starts_with("d standby"));
        job.pass(3s, "a b d");
        CHECK(job.output().back().starts_with("d closed: refused"));
    }
}

TEST_CASE("a node that comes between two rounds is in the next one") {
    Story job{"1:2"};
    job.join("a");
    job.pass(30s, "a");
    job.failed("a");
    job.output();
    job.join("b");
    CHECK(
        job.output().back() == "b standby \"between two rounds: rank 0 on a: exited with code 7\"");
    job.ready("a");
    CHECK(job.assignment("b").group_world_size == 2);
}
