// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

using namespace std::chrono_literals;

Story::Tweak incarnation(std::string value) {
    return [=](control::Join& join) { join.incarnation = value; };
}

}  // namespace

TEST_CASE("jobs of one server never see each other") {
    Story server{"2"};
    const auto other = [](control::Join& join) { join.run_id = "other"; };
    server.join("a");
    server.join("b", other);
    server.join("c", other);
    server.join("d");

    CHECK(server.assignment("a").group_world_size == 2);
    CHECK(server.assignment("c").group_world_size == 2);
    CHECK(server.assignment("c").neighbours[0].nonce == nonce_of("b"));
    server.output();
    server.failed("b");
    CHECK(server.output().size() == 3);
    server.succeeded("a d");
    CHECK(server.result("a") == "result succeeded exit_code=0");
    CHECK(server.result("b").empty());
    CHECK_FALSE(server.coordinator().is_idle());
}

TEST_CASE("a hosting ddprun serves its own run id only") {
    Story job{"2"};
    job.is_hosted();
    job.join("a", [](control::Join& join) { join.run_id = "other"; });
    CHECK(
        job.output().front() ==
        "a refused \"the ddprun that serves here does so for job 'job' only, not for 'other'\"");
    job.join("a");
    CHECK(job.output().front() == "a welcome incarnation=61000000 lease=30s hosted");
}

TEST_CASE("a daemon keeps the default id for its first user") {
    Story server{"2", 3, [](control::Join& join) { join.run_id = "none"; }};
    server.join("a");
    server.output();
    server.join("b", [](control::Join& join) { join.node.user = 1000; });
    CHECK(
        server.output().front() ==
        "b refused \"job 'none' here belongs to user id 0, not to user id 1000: give --rdzv-id a "
        "name\"");
}

TEST_CASE("a newer incarnation ends the older and begins when its nodes are gone") {
    Story job{"1"};
    job.join("a", incarnation("9"));
    job.output();

    job.join("b", incarnation("10"));
    CHECK(
        job.output() == Lines{
                            "draining: superseded by incarnation 10",
                            "a stop round=0 SIGTERM grace=30s \"superseded by incarnation 10\"",
                            "b refused \"the job's earlier incarnation 9 is being ended\" retry=1s",
                            "b closed: refused: the job's earlier incarnation 9 is being ended"});
    job.ready("a");
    CHECK(job.result("a").starts_with("result cancelled exit_code=143 superseded"));
    job.join("b", incarnation("10"));
    CHECK(
        job.output().back() ==
        "b closed: refused: nodes of the job's earlier incarnation are still there");
    job.drop("a");
    job.join("b", incarnation("10"));
    CHECK(job.output().front() == "b welcome incarnation=10 lease=0s");
}

TEST_CASE("an incarnation that is still kept is not begun again") {
    const auto named = [](control::Join& join) {
        join.run_id = "x";
        join.incarnation = "A";
        join.settings.lease = 24h;
    };
    const auto unnamed = [](control::Join& join) { join.run_id = "x"; };
    Story job{"1"};
    job.join("a", named);
    job.started("a");
    job.succeeded("a");
    job.drop("a");
    job.join("b", unnamed);
    job.started("b");
    job.succeeded("b");
    job.drop("b");
    job.output();

    job.join("c", [&](control::Join& join) {
        named(join);
        join.nodes = {2, 2, 0};
    });
    CHECK(
        job.output().front() ==
        "c refused \"incarnation A of job 'x' is kept here already: it succeeded (every node "
        "succeeded, exit code 0)\"");
    job.pass(30s);
    job.drop("c");
    const auto kept = job.coordinator().status({});
    REQUIRE(kept.size() == 1);
    CHECK(kept.front().is_newest);
    CHECK(kept.front().incarnation == "A");
}

TEST_CASE("a node of an older incarnation is refused, and so is one that does not fit") {
    Story job{"2"};
    job.join("a", incarnation("10"));
    job.output();
    job.join("b", incarnation("9"));
    CHECK(
        job.output().front() ==
        "b refused \"job 'job' has been started again since: its incarnation is 10, this node "
        "belongs to 9\"");
    job.join("c");
    CHECK(job.assignment("c").group_world_size == 2);

    Story plain{"2"};
    plain.join("a");
    plain.output();
    plain.join("b", incarnation("1"));
    CHECK(
        plain.output().front() ==
        "b refused \"job 'job' runs without an incarnation, this node brings '1': start all nodes "
        "alike\"");
}

TEST_CASE("any other message before join or resume is answered with an error and the end") {
    Story job{"2"};
    job.join("a");
    job.output();
    job.join("a");
    job.output();
    job.say("a", job.join_of("a"));
    CHECK(
        job.output() == Lines{
                            "a error \"a second join\"",
                            "a closed: a second join",
                            "forming: waiting for 2 nodes (0 of 2 ready)"});
    job.post(Coordinator::Connected{{99}, "10.0.0.9", "10.0.0.9:1", "10.0.0.1"});
    job.post(Coordinator::Received{{99}, control::Heartbeat{1}});
    CHECK(
        job.output() == Lines{
                            "? error \"the first message must be join or resume\"",
                            "? closed: the first message must be join or resume"});
    job.post(Coordinator::Received{{77}, control::Heartbeat{1}});
    job.post(Coordinator::Disconnected{{77}});
    CHECK(job.output() == Lines{});
}

TEST_CASE("the status page names states, reasons and ranks") {
    Story job{"2:3+1"};
    job.join("a");
    job.join("b");
    job.join("c");
    job.started("a");
    job.join("d");

    const auto status = job.status();
    CHECK(status.run_id == "job");
    CHECK(status.state == "running");
    CHECK(status.round == 0);
    CHECK(status.world_size == 6);
    CHECK(status.node_count == 4);
    REQUIRE(status.nodes.size() == 4);
    CHECK(status.nodes[0].state == "running");
    CHECK(status.nodes[1].state == "starting");
    CHECK(status.nodes[1].first_rank == 2);
    CHECK(status.nodes[1].last_rank == 3);
    CHECK(status.nodes[3].state == "standby");
    CHECK(status.nodes[3].reason.starts_with("spare"));
    CHECK_FALSE(status.nodes[3].group_rank.has_value());
    CHECK(job.coordinator().status({}, 3).front().nodes.size() == 1);
}

TEST_CASE("a heartbeat is answered and changes nothing") {
    Story job{"2"};
    job.run("a b");
    std::vector<Coordinator::Effect> effects;
    job.coordinator().handle(
        Coordinator::Received{job.connection("a"), control::Heartbeat{5}}, Instant{}, effects);
    REQUIRE(effects.size() == 1);
    CHECK(
        describe(effects[0]) ==
        "to #" + std::to_string(job.connection("a").value) + " heartbeat_ack 5");
}

TEST_CASE("a message on a replaced connection has no effect when it arrives") {
    constexpr ConnectionId given_up{0};
    Story job("2");
    job.post(Coordinator::Connected{given_up, "10.0.0.2", "10.0.0.2:1", "10.0.0.1"});
    job.run("a b");

    auto join = job.join_of("b");
    join.store_port = 4711;
    job.post(Coordinator::Received{given_up, join});

    CHECK(job.status().state == "running");
    CHECK(job.coordinator().stale_count() == 1);
    job.succeeded("a b");
    CHECK(job.result("b") == job.result("a"));
    CHECK(job.status().state == "succeeded");
}
