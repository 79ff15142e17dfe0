// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

/// All run, each in reach of two neighbours.
Story three_nodes(const std::string& nnodes = "1:3", Story::Tweak terms = {}) {
    Story job{nnodes, 3, std::move(terms)};
    job.run("a b c");
    job.reached("a b c", 2);
    return job;
}

void disown(Story& job, const std::string& witnesses, const std::string& node) {
    for (const auto& witness : words(witnesses))
        job.say(witness, control::NeighbourHeard{nonce_of(node), 0, std::nullopt, true});
}

void vouch(Story& job, const std::string& witness, const std::string& node, Duration ago) {
    job.say(witness, control::NeighbourHeard{nonce_of(node), 0, ago, false});
}

std::string node_reason(const Story& job, std::size_t place) {
    return job.status().nodes.at(place).reason;
}

bool has_line(const Lines& lines, const std::string& start) {
    return std::any_of(
        lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(start); });
}

}  // namespace

TEST_CASE("a silent member is asked about at its neighbours, and disowned by all lost after 5 s") {
    auto job = three_nodes();

    job.pass(2999ms, "a c");
    CHECK(job.told() == Lines{});
    job.pass(1ms);
    CHECK(
        job.told() == Lines{
                          "c ask 62000000 round=0",
                          "a ask 62000000 round=0",
                          "running: node b (pid 100) has been silent for 3 s, its neighbours are "
                          "being asked; lost in 27 s unless it is heard"});
    // Nobody has promised anything yet.
    for (const auto* witness : {"a", "c"})
        job.say(witness, control::NeighbourHeard{nonce_of("b"), 0, std::nullopt, false});

    job.pass(1s, "a c");
    CHECK(job.told() == Lines{"c ask 62000000 round=0 disown", "a ask 62000000 round=0 disown"});
    disown(job, "a c", "b");
    CHECK(
        node_reason(job, 1) ==
        "silent for 4 s, none of its neighbours hears it: c, a: lost in a moment");

    job.pass(999ms);
    CHECK_FALSE(has_line(job.told(), "draining"));
    job.pass(1ms, "a c");
    const std::string why =
        "node b (pid 100) was lost: nothing was heard of it for 5 s, and none of its neighbours "
        "hears it: c, a";
    const auto told = job.told();
    CHECK(has_line(told, "b lost \"" + why));
    CHECK(has_line(told, "draining: " + why));
    job.ready("a c");
    CHECK(job.assignment("a").round == 1);
}

TEST_CASE("a silent member that a neighbour vouches for is kept until its lease ends") {
    auto job = three_nodes();
    job.pass(3s, "a c");
    job.told();

    vouch(job, "c", "b", 100ms);
    CHECK(
        job.told() ==
        Lines{"running: node b (pid 100) is silent, but node c heard from it 0.1 s ago: kept"});
    // The other one need not disown it.
    job.pass(1s, "a c");
    CHECK(job.told() == Lines{"c ask 62000000 round=0", "a ask 62000000 round=0"});
    CHECK(
        node_reason(job, 1) ==
        "silent for 4 s, node c heard from it 1.1 s ago: kept; lost in 26 s unless it is heard");

    for (int second = 4; second < 29; ++second) {
        vouch(job, "c", "b", 0s);
        job.pass(1s, "a c");
    }
    CHECK_FALSE(has_line(job.told(), "draining"));
    vouch(job, "c", "b", 0s);
    job.pass(1s, "a c");
    CHECK(has_line(
        job.told(), "draining: node b (pid 100) was lost: nothing was heard of it for 30 s"));
}

TEST_CASE("a vouch that is no longer answered counts from when it last was") {
    auto job = three_nodes();
    job.pass(3s, "a c");
    vouch(job, "c", "b", 0s);
    job.pass(2s, "a c");
    job.told();
    // 5 s after the last heartbeat: no longer vouched for, so it is to be disowned.
    job.pass(1s, "a c");
    CHECK(job.told() == Lines{"c ask 62000000 round=0 disown", "a ask 62000000 round=0 disown"});
    disown(job, "a", "b");
    job.say("c", control::NeighbourHeard{nonce_of("b"), 0, 3s, true});

    job.pass(1999ms, "a c");
    CHECK_FALSE(has_line(job.told(), "draining"));
    job.pass(1ms, "a c");
    CHECK(has_line(job.told(), "draining: node b (pid 100) was lost: nothing was heard of it for"));
}

TEST_CASE("who vouched while it disowned is believed: the member was alive then") {
    auto job = three_nodes();
    job.pass(4s, "a c");
    disown(job, "a", "b");
    job.say("c", control::NeighbourHeard{nonce_of("b"), 0, 500ms, true});
    job.told();

    job.pass(4499ms, "a c");
    CHECK_FALSE(has_line(job.told(), "draining"));
    job.pass(1ms, "a c");
    CHECK(has_line(job.told(), "draining"));
}

TEST_CASE("a neighbour that is silent too could know better: the lease decides") {
    auto job = three_nodes("1:3");
    job.pass(4s, "a");
    disown(job, "a", "b");
    disown(job, "a", "c");
    job.told();
    CHECK(
        node_reason(job, 1) ==
        "silent for 4 s, c may hear it, but cannot be asked; lost in 26 s unless it is heard");

    job.pass(25s, "a");
    CHECK_FALSE(has_line(job.told(), "draining"));
    job.pass(1s, "a");
    CHECK(has_line(
        job.told(), "draining: node b (pid 100) was lost: nothing was heard of it for 30 s"));
}

TEST_CASE("a neighbour that is gone vouches no more, but may have until it went") {
    auto job = three_nodes();
    job.pass(2s, "a c");
    job.drop("c");
    job.pass(2s, "a");
    // The round drains for c; b is silent in it.
    job.ready("a");
    disown(job, "a", "b");
    job.told();

    // c was lost half a second after its connection ended.
    job.pass(3499ms, "a");
    CHECK_FALSE(has_line(job.told(), "running: round 1"));
    job.pass(1ms, "a");
    CHECK(has_line(job.told(), "running: round 1 complete: 1 node"));
}

TEST_CASE("with fewer than two neighbours in reach nobody is asked, and the lease decides") {
    Story job{"1:3"};
    job.run("a b c");
    job.reached("b", 1);

    job.pass(29s, "a c");
    CHECK(
        job.told() ==
        Lines{
            "running: node b (pid 100) has been silent for 3 s: lost in 27 s unless it is heard"});
    CHECK(node_reason(job, 1) == "silent for 29 s: lost in 1 s unless it is heard");
    job.pass(1s, "a c");
    CHECK(has_line(job.told(), "b lost"));
}

TEST_CASE("a member that is heard again is trusted again") {
    auto job = three_nodes();
    job.pass(4500ms, "a c");
    disown(job, "a c", "b");
    job.told();

    job.say("b", control::Heartbeat{1});
    CHECK(
        job.told() == Lines{"running: node b (pid 100) is heard again: nobody is silent any more"});
    job.pass(10s, "a b c");
    CHECK(job.told() == Lines{});
    CHECK(node_reason(job, 1) == "");
}

TEST_CASE("a frozen host that connects again goes on where it was") {
    auto job = three_nodes();
    job.pass(4s, "a c");
    vouch(job, "a", "b", 0s);
    job.told();

    job.resume("b", NodeState::running, [](control::Resume& resume) { resume.reached = 2; });

    CHECK(has_line(job.told(), "b resumed"));
    job.pass(10s, "a b c");
    CHECK(job.told() == Lines{});
    // It still is in reach of two.
    job.pass(3s, "a c");
    CHECK(has_line(job.told(), "c ask"));
}

TEST_CASE("answers about another round, unasked ones and those of strangers mean nothing") {
    auto job = three_nodes("1:3+1");
    job.join("s");
    // Before anybody asked.
    disown(job, "a c", "b");
    job.pass(4s, "a c s");
    job.say("a", control::NeighbourHeard{nonce_of("b"), 1, std::nullopt, true});
    disown(job, "s c", "b");
    disown(job, "a", "nobody");
    CHECK(job.coordinator().stale_count() == 5);
    job.told();

    job.pass(5s, "a c s");
    CHECK_FALSE(has_line(job.told(), "draining"));
}

TEST_CASE("a member that falls silent while the round drains is disowned in the same way") {
    auto job = three_nodes();
    job.failed("a");
    job.ready("a c");
    job.pass(4s, "a c");
    CHECK(has_line(job.told(), "c ask 62000000 round=0 disown"));
    disown(job, "a c", "b");

    job.pass(1s, "a c");

    CHECK(has_line(job.told(), "running: round 1 complete: 2 nodes"));
}

TEST_CASE("a member that falls silent while the next round forms is disowned in the same way") {
    auto job = three_nodes("3");
    job.drop("a");
    job.pass(500ms);
    job.ready("b c");
    job.told();
    CHECK(job.status().state == "forming");

    job.pass(4s, "c");
    CHECK(has_line(job.told(), "c ask 62000000 round=0 disown"));
    disown(job, "c", "b");
    job.pass(1s, "c");

    CHECK(has_line(job.told(), "b lost"));
}

TEST_CASE("a new round needs new witnesses") {
    auto job = three_nodes();
    job.failed("a");
    job.ready("a b c");
    CHECK(job.assignment("b").round == 1);
    job.told();

    // Nobody has said yet whom it reaches.
    job.pass(10s, "a c");

    CHECK_FALSE(has_line(job.told(), "c ask"));
}

TEST_CASE("a server that did not run asks nobody: it has heard nobody for its own reasons") {
    auto job = three_nodes();
    job.pass(1s, "a b c");
    job.told();

    job.doze(60s);

    CHECK(job.told() == Lines{});
    job.pass(2s);
    CHECK(job.told() == Lines{});
}

TEST_CASE("many that fall silent at once are one line") {
    Story job{"1:5"};
    job.run("a b c d e");

    job.pass(3s, "a");

    CHECK(
        job.told() ==
        Lines{"running: 4 nodes have been silent for 3 s: b (pid 100), c (pid 100), d "
              "(pid 100) and 1 more"});
}
