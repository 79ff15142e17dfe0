// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

const std::string by = "ddprunctl (user alice, pid 7 on a)";
const std::string reason = "drained by " + by;

/// The job's answer to `a`: "done ..." or "refused ...".
std::string answer(Story& job, const control::AgentMessage& message) {
    job.output();
    job.say("a", message);
    const std::string start = "a drain_answer id=9 ";
    for (const auto& line : job.output())
        if (line.starts_with(start)) return line.substr(start.size());
    return {};
}

control::Drain a_drain(std::vector<std::string> nodes, bool is_forced = false) {
    return {9, std::move(nodes), is_forced, by};
}

std::string drain(Story& job, std::vector<std::string> nodes, bool is_forced = false) {
    return answer(job, a_drain(std::move(nodes), is_forced));
}

std::string undrain(Story& job, std::vector<std::string> nodes) {
    return answer(job, control::Undrain{9, std::move(nodes), by});
}

/// The node obeys its order, and is gone.
void leaves(Story& job, const std::string& node, int round = 0) {
    job.say(node, control::Leave{reason, SIGTERM});
    job.ready(node, round);
    job.drop(node);
}

std::string refused(const std::string& why) {
    return "refused \"" + why + "\"";
}

}  // namespace

TEST_CASE("a drained node gets its order, and an elastic job goes on without it") {
    auto job = job_of("1:2", "a b");

    job.say("a", a_drain({"b"}));
    CHECK(
        job.output() ==
        Lines{
            "a drain_answer id=9 done \"b (group rank 1, 62000000) leaves; the job goes on with 1 "
            "node\"",
            "running: node b (pid 100) is " + reason,
            "b drain_order \"" + reason + "\"",
            "a drained count=1 b"});
    CHECK(job.status().nodes[1].reason == "leaving: " + reason);
    leaves(job, "b");
    job.ready("a");

    CHECK(job.status().round == 1);
    CHECK(job.status().node_count == 1);
    CHECK(job.status().restarts_used == 0);
    CHECK(job.status().round_because == "node b (pid 100) leaves: " + reason);
}

TEST_CASE("a spare takes the place of a drained node") {
    auto job = job_of("2+1", "a b");
    job.join("s");

    CHECK(
        drain(job, {"1"}) ==
        "done \"b (group rank 1, 62000000) leaves; a node that stands by takes a free place\"");
    leaves(job, "b");
    job.ready("a");

    CHECK(job.status().round == 1);
    CHECK(job.status().nodes.back().host == "s");
    CHECK(job.status().nodes.back().group_rank == 1);
}

TEST_CASE("a node of a drained host stands by until the host is undrained") {
    auto job = job_of_two_with_room();
    drain(job, {"62000000"});
    leaves(job, "b");
    job.ready("a");
    REQUIRE(job.status().round == 1);
    job.started("a", 1);
    CHECK(job.status().drained_hosts.at(0).host == "b");
    CHECK(job.status().drained_hosts.at(0).reason == reason);
    job.output();

    job.join("again", [](control::Join& join) { join.node.host = "b"; });
    CHECK(
        job.output() == Lines{
                            "again welcome incarnation=61000000 lease=30s",
                            "again standby \"its host was " + reason +
                                ": it stands by until 'ddprunctl "
                                "undrain'\""});
    job.pass(60s, "a again");
    CHECK(job.status().round == 1);
    CHECK(job.status().nodes.back().state == "drained");
    // The drained node does not count as available when too few nodes are left.
    job.say("a", control::Leave{"SIGTERM on a", SIGTERM});
    job.ready("a", 1);
    CHECK(job.result("again").starts_with("result cancelled exit_code=143"));
}

TEST_CASE("an undrained host's node is let in, in a running job and in one that waits") {
    auto running = job_of_two_with_room();
    drain(running, {"b"});
    leaves(running, "b");
    running.ready("a");
    running.started("a", 1);
    running.join("again", [](control::Join& join) { join.node.host = "b"; });

    CHECK(undrain(running, {"b"}) == "done \"nodes of b may have a place\"");
    CHECK(running.status().drained_hosts.empty());
    running.pass(1s, "a again");
    running.ready("a", 1);
    CHECK(running.status().round == 2);
    CHECK(running.status().world_size == 4);

    auto waiting = job_of("2", "a b");
    drain(waiting, {"b"}, true);
    leaves(waiting, "b");
    waiting.ready("a");
    waiting.join("again", [](control::Join& join) { join.node.host = "b"; });
    CHECK(waiting.status().state == "forming");
    // Also by the short nonce of the node that stands by.
    CHECK(undrain(waiting, {"61676169"}) == "done \"nodes of b may have a place\"");
    CHECK(waiting.status().round == 1);
    CHECK(waiting.status().state == "running");
}

TEST_CASE("a drain that leaves too few nodes is refused, unless it is forced") {
    auto job = job_of("2", "a b");
    CHECK(
        drain(job, {"b"}) ==
        refused(
            "1 node would be left, and the job needs at least 2 (--force drains all the same)"));
    CHECK(job.status().state == "running");

    CHECK(
        drain(job, {"b"}, true) ==
        "done \"b (group rank 1, 62000000) leaves; the job then has 1 node of at least 2, and "
        "waits for others or ends\"");
    leaves(job, "b");
    job.ready("a");
    CHECK(job.status().state == "forming");
    job.join("c");
    CHECK(job.status().round == 1);
}

TEST_CASE("the node that has the server is drained by force only") {
    Story job{"1:2", 3, speaks_version_2};
    job.is_hosted();
    job.join("a", [](control::Join& join) { join.is_hosting = true; });
    job.join("b");
    job.started("a b");

    CHECK(
        drain(job, {"a"}) ==
        refused("the rendezvous server is part of the ddprun of a (group rank 0, 61000000): the "
                "job would end on every node (--force drains it all the same)"));
    CHECK(
        drain(job, {"a"}, true) ==
        "done \"a (group rank 0, 61000000) leaves; the job ends with it\"");
}

TEST_CASE("the node whose server leads is drained as any node where another one can follow") {
    Story job{"1:2", 3, speaks_version_2};
    job.has_voters();
    job.join("a");
    job.join("b");
    job.started("a b");
    const auto alone = drain(job, {"a"});
    CAPTURE(alone);
    CHECK(alone.find("the job would end on every node") != std::string::npos);

    control::Voters voters{nonce_of("lineage"), {1, nonce_of("a")}, {}};
    for (const std::string node : {"a", "b", "c"})
        voters.set.voters.push_back({"10.0.0.1:" + node, nonce_of(node)});
    job.voters_changed(voters);
    CHECK(drain(job, {"a"}).starts_with("done \"a "));
}

TEST_CASE("a node that is not there, or not one alone, is refused with those that are") {
    auto job = job_of("1:2", "a b");
    CHECK(
        drain(job, {"x"}) ==
        refused("no node 'x'; there are a (group rank 0, 61000000), b (group rank 1, 62000000)"));
    CHECK(drain(job, {}) == refused("no node is named"));

    Story two{"1:2", 3, speaks_version_2};
    two.run("a");
    two.join("b", [](control::Join& join) { join.node.host = "a"; });
    CHECK(drain(two, {"a"})
              .starts_with(
                  "refused \"several nodes are 'a'; there are a (group rank 0, 61000000), a (group "
                  "rank 1, 62000000)"));
}

TEST_CASE("one drain at a time, and the same one twice is harmless") {
    auto job = job_of("1:3", "a b c");
    drain(job, {"b"});

    CHECK(drain(job, {"b"}) == "done \"b (group rank 1, 62000000) leaves already\"");
    CHECK(
        drain(job, {"c"}) ==
        refused("one drain at a time: b (group rank 1, 62000000) is still being drained"));
    leaves(job, "b");
    job.ready("a c");
    CHECK(
        drain(job, {"c", "c"}) ==
        "done \"c (group rank 1, 63000000) leaves; the job goes on with 1 node\"");
}

TEST_CASE("a node that does not come to its end keeps no other from being drained") {
    auto job = job_of("1:3", "a b c");
    drain(job, {"b"});
    job.say("b", control::Leave{reason, SIGTERM});
    job.ready("a c");
    // Its workers cannot be killed.
    job.pass(60s, "a b c");
    REQUIRE(job.status().round == 1);
    job.started("a c", 1);

    CHECK(
        drain(job, {"c"}) ==
        "done \"c (group rank 1, 63000000) leaves; the job goes on with 1 node\"");
}

TEST_CASE("a node that is about to leave does not count as one that would be left") {
    auto job = job_of("2:3", "a b c");
    job.say("c", control::Notice{"SIGTERM on c", SIGTERM, 30s});
    CHECK(drain(job, {"b"}).starts_with("refused \"1 node would be left"));

    auto leaving = job_of("2:3", "a b c");
    leaving.say("c", control::Leave{"SIGTERM on c", SIGTERM});
    CHECK(drain(leaving, {"b"}).starts_with("refused \"1 node would be left"));
    // Its host is kept out only if the job has enough nodes without it.
    CHECK(drain(leaving, {"c"}).starts_with("done \"c ("));
    auto two = job_of("2", "a b");
    two.say("b", control::Leave{"SIGTERM on b", SIGTERM});
    CHECK(drain(two, {"b"}).starts_with("refused \"1 node would be left"));
    CHECK(two.status().drained_hosts.empty());
}

TEST_CASE("a host is undrained when its node has left, not while it may still get its order") {
    auto job = job_of("1:2", "a b");
    job.drop("b");
    drain(job, {"b"}, true);
    CHECK(undrain(job, {"b"}).starts_with("refused \"b (group rank 1, 62000000) is still being"));
    job.resume("b", NodeState::running);
    leaves(job, "b");
    job.ready("a");
    CHECK(undrain(job, {"b"}) == "done \"nodes of b may have a place\"");
}

TEST_CASE("a node of a drained host can be sent away where the job lacks nodes") {
    auto job = job_of("2", "a b");
    drain(job, {"b"}, true);
    leaves(job, "b");
    job.ready("a");
    job.join("again", [](control::Join& join) { join.node.host = "b"; });
    CHECK(drain(job, {"b"}).starts_with("done \"b (61676169) leaves"));
}

TEST_CASE("a node that joins again before its welcome came gets its order too") {
    Story job{"1:2", 3, speaks_version_2};
    job.join("a");
    job.join("b");
    drain(job, {"b"});
    job.drop("b");
    job.output();
    job.join("b");
    const auto lines = job.output();
    CHECK(lines.front().starts_with("b welcome"));
    CHECK(std::count(lines.begin(), lines.end(), "b drain_order \"" + reason + "\"") == 1);
}

TEST_CASE("a node of an older release, and a job that ends or is being taken up, drain nothing") {
    auto job = job_of("1:2", "a");
    job.join("b", [](control::Join& join) { join.versions = {1}; });
    CHECK(
        drain(job, {"b"}) == refused("b (group rank 1, 62000000) runs an older release of ddprun: "
                                     "it leaves by SIGTERM to its "
                                     "ddprun"));

    job.interrupt(SIGTERM);
    CHECK(drain(job, {"b"}).starts_with("refused \"the job is ending: "));
    CHECK(undrain(job, {"b"}).starts_with("refused \"the job is ending: "));

    auto recovering = job_of("1:2", "a b");
    recovering.restart_server();
    recovering.resume("a", NodeState::running);
    CHECK(drain(recovering, {"b"}).starts_with("refused \"the server has just taken the job up"));
}

TEST_CASE("what is not drained cannot be undrained, and the answer says what is") {
    auto job = job_of("1:3", "a b c");
    CHECK(undrain(job, {"b"}) == refused("no drained host 'b'; none is drained"));
    drain(job, {"b"});
    CHECK(undrain(job, {"c"}) == refused("no drained host 'c'; drained are b"));
    CHECK(undrain(job, {}) == refused("no node is named"));
}

TEST_CASE("an order that was lost with the connection is repeated, until the node says leave") {
    auto job = job_of("1:2", "a b");
    job.drop("b");
    drain(job, {"b"}, true);

    job.resume("b", NodeState::running);
    CHECK(job.output().back() == "b drain_order \"" + reason + "\"");
    job.say("b", control::Leave{reason, SIGTERM});
    job.output();
    job.resume("b", NodeState::stopping);
    for (const auto& line : job.output())
        CHECK_FALSE(line.starts_with("b drain_order"));
}

TEST_CASE("a host that was drained is not one that comes and goes") {
    auto job = job_of_two_with_room();
    for (int round = 0; round < 4; round += 2) {
        const auto node = "b" + std::string(static_cast<std::size_t>(round / 2), 'x');
        drain(job, {node});
        leaves(job, node, round);
        job.ready("a", round);
        job.started("a", round + 1);
        undrain(job, {"b"});
        job.join(node + "x", [](control::Join& join) { join.node.host = "b"; });
        job.pass(1s, "a " + node + "x");
        job.ready("a", round + 1);
        REQUIRE(job.status().round == round + 2);
        CHECK(job.status().world_size == 4);
        job.started("a " + node + "x", round + 2);
    }
}
