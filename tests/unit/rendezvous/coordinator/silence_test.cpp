// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

/// All run, and each can reach two neighbours.
Story three_nodes(const std::string& nnodes = "1:3", Story::Tweak terms = {}) {
    Story job{nnodes, 3, std::move(terms)};
    job.run("a b c");
    job.reached("a b c", 2);
    return job;
}

void confirm(Story& job, const std::string& witnesses, const std::string& node) {
    for (const auto& witness : words(witnesses))
        job.say(witness, control::NeighbourHeard{nonce_of(node), 0, std::nullopt, true});
}

void answer_probe(Story& job, const std::string& witness, const std::string& node, Duration ago) {
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

TEST_CASE("a silent member's neighbours are asked, and when all confirm it is lost after 5 s") {
    auto job = three_nodes();

    job.pass(2999ms, "a c");
    CHECK(job.output() == Lines{});
    job.pass(1ms);
    CHECK(
        job.output() == Lines{
                            "c ask 62000000 round=0",
                            "a ask 62000000 round=0",
                            "running: node b (pid 100) has been silent for 3 s, its neighbours are "
                            "being asked; lost in 27 s unless it is heard"});
    // The first question asks for no confirmation.
    for (const auto* witness : {"a", "c"})
        job.say(witness, control::NeighbourHeard{nonce_of("b"), 0, std::nullopt, false});

    job.pass(1s, "a c");
    CHECK(
        job.output() ==
        Lines{"c ask 62000000 round=0 to confirm", "a ask 62000000 round=0 to confirm"});
    confirm(job, "a c", "b");
    CHECK(
        node_reason(job, 1) ==
        "silent for 4 s, none of its neighbours hears it: c, a: lost in a moment");

    job.pass(999ms);
    CHECK_FALSE(has_line(job.output(), "draining"));
    job.pass(1ms, "a c");
    const std::string why =
        "node b (pid 100) was lost: nothing was heard of it for 5 s, and none of its neighbours "
        "hears it: c, a";
    const auto output = job.output();
    CHECK(has_line(output, "b lost \"" + why));
    CHECK(has_line(output, "draining: " + why));
    job.ready("a c");
    CHECK(job.assignment("a").round == 1);
}

TEST_CASE("a silent member whose probe a neighbour answered is kept until its lease ends") {
    auto job = three_nodes();
    job.pass(3s, "a c");
    job.output();

    answer_probe(job, "c", "b", 100ms);
    CHECK(
        job.output() ==
        Lines{"running: node b (pid 100) is silent, but node c heard from it 0.1 s ago: kept"});
    // The other one need not confirm.
    job.pass(1s, "a c");
    CHECK(job.output() == Lines{"c ask 62000000 round=0", "a ask 62000000 round=0"});
    CHECK(
        node_reason(job, 1) ==
        "silent for 4 s, node c heard from it 1.1 s ago: kept; lost in 26 s unless it is heard");

    for (int second = 4; second < 29; ++second) {
        answer_probe(job, "c", "b", 0s);
        job.pass(1s, "a c");
    }
    CHECK_FALSE(has_line(job.output(), "draining"));
    answer_probe(job, "c", "b", 0s);
    job.pass(1s, "a c");
    CHECK(has_line(
        job.output(), "draining: node b (pid 100) was lost: nothing was heard of it for 30 s"));
}

TEST_CASE("a probe that is no longer answered counts from its last answer") {
    auto job = three_nodes();
    job.pass(3s, "a c");
    answer_probe(job, "c", "b", 0s);
    job.pass(2s, "a c");
    job.output();
    // 5 s after the last heartbeat no probe has been answered lately, so a confirmation is
    // requested.
    job.pass(1s, "a c");
    CHECK(
        job.output() ==
        Lines{"c ask 62000000 round=0 to confirm", "a ask 62000000 round=0 to confirm"});
    confirm(job, "a", "b");
    job.say("c", control::NeighbourHeard{nonce_of("b"), 0, 3s, true});

    job.pass(1999ms, "a c");
    CHECK_FALSE(has_line(job.output(), "draining"));
    job.pass(1ms, "a c");
    CHECK(
        has_line(job.output(), "draining: node b (pid 100) was lost: nothing was heard of it for"));
}

TEST_CASE("a probe answered with the confirmation counts: the member was alive then") {
    auto job = three_nodes();
    job.pass(4s, "a c");
    confirm(job, "a", "b");
    job.say("c", control::NeighbourHeard{nonce_of("b"), 0, 500ms, true});
    job.output();

    job.pass(4499ms, "a c");
    CHECK_FALSE(has_line(job.output(), "draining"));
    job.pass(1ms, "a c");
    CHECK(has_line(job.output(), "draining"));
}

TEST_CASE("a neighbour that is silent too could know better: the lease decides") {
    auto job = three_nodes("1:3");
    job.pass(4s, "a");
    confirm(job, "a", "b");
    confirm(job, "a", "c");
    job.output();
    CHECK(
        node_reason(job, 1) ==
        "silent for 4 s, c may hear it, but cannot be asked; lost in 26 s unless it is heard");

    job.pass(25s, "a");
    CHECK_FALSE(has_line(job.output(), "draining"));
    job.pass(1s, "a");
    CHECK(has_line(
        job.output(), "draining: node b (pid 100) was lost: nothing was heard of it for 30 s"));
}

TEST_CASE("a neighbour that is gone answers no probe, but may have until it went") {
    auto job = three_nodes();
    job.pass(2s, "a c");
    job.drop("c");
    job.pass(2s, "a");
    // The round drains for c; b is silent in it.
    job.ready("a");
    confirm(job, "a", "b");
    job.output();

    // c was lost half a second after its connection ended.
    job.pass(3499ms, "a");
    CHECK_FALSE(has_line(job.output(), "running: round 1"));
    job.pass(1ms, "a");
    CHECK(has_line(job.output(), "running: round 1 complete: 1 node"));
}

TEST_CASE("with fewer than two neighbours in reach none is asked, and the lease decides") {
    Story job{"1:3"};
    job.run("a b c");
    job.reached("b", 1);

    job.pass(29s, "a c");
    CHECK(
        job.output() ==
        Lines{
            "running: node b (pid 100) has been silent for 3 s: lost in 27 s unless it is heard"});
    CHECK(node_reason(job, 1) == "silent for 29 s: lost in 1 s unless it is heard");
    job.pass(1s, "a c");
    CHECK(has_line(job.output(), "b lost"));
}

TEST_CASE("a member that is heard again is no longer suspected") {
    auto job = three_nodes();
    job.pass(4500ms, "a c");
    confirm(job, "a c", "b");
    job.output();

    job.say("b", control::Heartbeat{1});
    CHECK(
        job.output() ==
        Lines{"running: node b (pid 100) is heard again: no node is silent any more"});
    job.pass(10s, "a b c");
    CHECK(job.output() == Lines{});
    CHECK(node_reason(job, 1) == "");
}

TEST_CASE("a frozen host that connects again resumes where it was") {
    auto job = three_nodes();
    job.pass(4s, "a c");
    answer_probe(job, "a", "b", 0s);
    job.output();

    job.resume("b", NodeState::running, [](control::Resume& resume) { resume.reached = 2; });

    CHECK(has_line(job.output(), "b resumed"));
    job.pass(10s, "a b c");
    CHECK(job.output() == Lines{});
    // It can still reach two neighbours.
    job.pass(3s, "a c");
    CHECK(has_line(job.output(), "c ask"));
}

TEST_CASE("answers about another round, unrequested ones and those of other nodes have no effect") {
    auto job = three_nodes("1:3+1");
    job.join("s");
    // Before any question.
    confirm(job, "a c", "b");
    job.pass(4s, "a c s");
    job.say("a", control::NeighbourHeard{nonce_of("b"), 1, std::nullopt, true});
    confirm(job, "s c", "b");
    confirm(job, "a", "unknown");
    CHECK(job.coordinator().stale_count() == 5);
    job.output();

    job.pass(5s, "a c s");
    CHECK_FALSE(has_line(job.output(), "draining"));
}

TEST_CASE("a member that is silent while the round drains is confirmed in the same way") {
    auto job = three_nodes();
    job.failed("a");
    job.ready("a c");
    job.pass(4s, "a c");
    CHECK(has_line(job.output(), "c ask 62000000 round=0 to confirm"));
    confirm(job, "a c", "b");

    job.pass(1s, "a c");

    CHECK(has_line(job.output(), "running: round 1 complete: 2 nodes"));
}

TEST_CASE("a member that is silent while the next round forms is confirmed in the same way") {
    auto job = three_nodes("3");
    job.drop("a");
    job.pass(500ms);
    job.ready("b c");
    job.output();
    CHECK(job.status().state == "forming");

    job.pass(4s, "c");
    CHECK(has_line(job.output(), "c ask 62000000 round=0 to confirm"));
    confirm(job, "c", "b");
    job.pass(1s, "c");

    CHECK(has_line(job.output(), "b lost"));
}

TEST_CASE("a new round needs new witnesses") {
    auto job = three_nodes();
    job.failed("a");
    job.ready("a b c");
    CHECK(job.assignment("b").round == 1);
    job.output();

    // No node has reported yet which neighbours it reaches.
    job.pass(10s, "a c");

    CHECK_FALSE(has_line(job.output(), "c ask"));
}

TEST_CASE("a server that did not run asks no neighbours: the silence was its own") {
    auto job = three_nodes();
    job.pass(1s, "a b c");
    job.output();

    job.doze(60s);

    CHECK(job.output() == Lines{});
    job.pass(2s);
    CHECK(job.output() == Lines{});
}

TEST_CASE("many that are silent at once are one line") {
    Story job{"1:5"};
    job.run("a b c d e");

    job.pass(3s, "a");

    CHECK(
        job.output() ==
        Lines{"running: 4 nodes have been silent for 3 s: b (pid 100), c (pid 100), d "
              "(pid 100) and 1 more"});
}
