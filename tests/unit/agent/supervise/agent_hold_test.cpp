// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/supervise/story.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::story;
namespace ctl = ddprun::control;

namespace {

using Kept = std::vector<ctl::KeptWorker>;

/// Both workers can be held. The second one crashes, the first one is held.
void hold_the_first(Story& story) {
    run_workers(story);
    story.is(A::WorkerRecoverable{0, true});
    story.is(A::WorkerRecoverable{1, true});
    story.is(A::WorkerExited{1, crash});
    CHECK(story.asked_for<G::HoldWorker>() == std::vector{G::HoldWorker{0, 10s}});
    CHECK(story.asked_for<G::SignalLeader>().empty());
    story.is(A::FailureExplained{0, 1, "", "", false});
    auto stop = a_stop();
    stop.keeps = true;
    story.hears(stop);
    story.is(A::StoreOpened{second_store});
    story.is(A::WorkerHeld{0, {0, 41, true}});
    story.has_no_leftovers();
    REQUIRE(story.agent.phase() == Phase::holding);
}

ctl::Assignment with_state(int round, int rank, std::uint64_t step) {
    auto assignment = an_assignment(round);
    assignment.state = ctl::StateSource{rank, step};
    return assignment;
}

ctl::Stop release() {
    return {0, "no worker that stays has the whole state: all are started again", {}, SIGTERM, 30s};
}

}  // namespace

TEST_CASE("a node is ready with the workers that it holds, and they go on in the next round") {
    Story story;
    hold_the_first(story);
    REQUIRE(story.said<ctl::Ready>().size() == 1);
    CHECK(story.said<ctl::Ready>().front() == ctl::Ready{0, second_store, 2, Kept{{0, 41, true}}});
    CHECK(story.asked_for<A::CleanUpRound>() == std::vector<A::CleanUpRound>{{0, true}});
    CHECK(story.agent.next_deadline().has_value() == false);
    story.asked();

    story.hears(with_state(1, 0, 41));

    const auto spawned = story.asked_for<A::SpawnWorkers>();
    REQUIRE(spawned.size() == 1);
    CHECK(spawned.front().kept == std::vector{0});
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerRecoverable{0, true});
    story.is(A::WorkerSpawned{1, 102});
    CHECK(story.agent.phase() == Phase::running);
    CHECK(story.agent.group()->worker(0).pid() == 100);
}

TEST_CASE("a held worker that ends is reported, and replaced in the next round") {
    Story story;
    hold_the_first(story);
    story.asked();

    story.is(A::WorkerExited{0, by_sigkill});

    REQUIRE(story.said<ctl::Ready>().size() == 1);
    CHECK(story.said<ctl::Ready>().front().kept.empty());
    CHECK(story.said<ctl::Failed>().empty());
    story.asked();
    // Also one that the server has sent before it knew.
    SUBCASE("a round with a state") {
        story.hears(with_state(1, 0, 41));
    }
    SUBCASE("a round without") {
        story.hears(an_assignment(1));
    }
    const auto spawned = story.asked_for<A::SpawnWorkers>();
    REQUIRE(spawned.size() == 1);
    CHECK(spawned.front().kept.empty());
}

TEST_CASE("held workers are stopped when the server cannot use them, and the node is ready again") {
    Story story;
    hold_the_first(story);
    story.asked();

    auto stop = release();
    SUBCASE("with the number of the round") {}
    SUBCASE("with that of a later round, of which this node never heard") {
        stop.round = 4;
    }
    story.hears(stop);

    CHECK(story.asked_for<G::SignalLeader>() == std::vector{G::SignalLeader{0, SIGTERM}});
    CHECK(story.said<ctl::Ready>().empty());
    story.is(A::WorkerExited{0, by_sigterm});
    story.has_no_leftovers();
    CHECK(story.agent.phase() == Phase::joining);
    REQUIRE(story.said<ctl::Ready>().size() == 1);
    CHECK(story.said<ctl::Ready>().front().kept.empty());
    story.asked();
    story.hears(an_assignment(1));
    CHECK(story.asked_for<A::SpawnWorkers>().size() == 1);
}

TEST_CASE("a hold does not extend a lease: held workers are killed at the fence") {
    Story story(a_config(2));
    hold_the_first(story);
    story.asked();
    story.loses_server();

    story.pass(40s);

    CHECK(story.asked_for<G::KillSession>() == std::vector{G::KillSession{0}});
}

TEST_CASE("held workers end with the job, with a signal, and with the membership") {
    Story story(a_config(2));
    hold_the_first(story);
    story.asked();
    SUBCASE("the result") {
        story.hears(ctl::JobResult{ctl::Outcome::failed, std::nullopt, 3});
        CHECK(story.asked_for<G::SignalLeader>() == std::vector{G::SignalLeader{0, SIGTERM}});
    }
    SUBCASE("SIGTERM") {
        story.is(A::Signalled{SIGTERM});
        CHECK(story.asked_for<G::SignalLeader>() == std::vector{G::SignalLeader{0, SIGTERM}});
    }
    SUBCASE("lost") {
        story.hears(ctl::Lost{"silent"});
        CHECK(story.asked_for<G::KillSession>() == std::vector{G::KillSession{0}});
    }
}

TEST_CASE("a new server gets the held workers with the resume") {
    Story story(a_config(2));
    hold_the_first(story);
    story.asked();
    story.loses_server();
    story.pass(1s);
    story.link = story.asked_for<A::Connect>().back().link;
    story.is(A::LinkOpened{story.link, "10.0.0.2:40000", 2});

    const auto resumed = story.said<ctl::Resume>();
    REQUIRE(resumed.size() == 1);
    CHECK(resumed.front().state == ctl::NodeState::ready);
    CHECK(resumed.front().kept == Kept{{0, 41, true}});
}

TEST_CASE("no worker is held where that is not wanted, or cannot be") {
    auto config = a_config();
    int version = 2;
    SUBCASE("--recovery=restart") {
        config.join.settings.recovery = ctl::Recovery::restart;
    }
    SUBCASE("an older server") {
        version = 1;
    }
    SUBCASE("the node has to make a health check") {
        config.health_check = "true";
    }
    Story story(config);
    if (!config.health_check.empty()) {
        story.is(A::Began{});
        story.is(A::HealthChecked{A::HealthChecked::Answer::fit, ""});
        story.is(A::StoreOpened{first_store});
        story.link = story.asked_for<A::Connect>().back().link;
        story.is(A::LinkOpened{story.link, "10.0.0.2:40000", version});
        story.hears(a_welcome());
        story.hears(an_assignment());
        story.is(A::WorkerSpawned{0, 100});
        story.is(A::WorkerSpawned{1, 101});
    } else {
        run_workers(story, version);
    }
    story.is(A::WorkerRecoverable{0, true});
    story.is(A::WorkerExited{1, crash});
    CHECK(story.asked_for<G::HoldWorker>().empty());
    CHECK(story.asked_for<G::SignalLeader>().size() == 1);
}

TEST_CASE("no worker is held as long as the server has no report of it: it waits less for them") {
    Story story(a_config(3));
    join_server(story, 2);
    auto assignment = an_assignment();
    assignment.neighbours = {
        {*Nonce::parse(std::string(32, 'b')), "10.0.0.11", 20'011},
        {*Nonce::parse(std::string(32, 'c')), "10.0.0.12", 20'012}};
    story.hears(assignment);
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    story.is(A::WorkerRecoverable{0, true});
    story.is(A::WorkerRecoverable{1, true});
    // It is not known yet which neighbours are in reach.
    REQUIRE(story.said<ctl::Started>().empty());
    bool is_reported = false;
    SUBCASE("stopped before the report") {}
    SUBCASE("the report is a resume") {
        story.loses_server();
        story.pass(1s);
        story.link = story.asked_for<A::Connect>().back().link;
        story.is(A::LinkOpened{story.link, "10.0.0.2:40000", 2});
        CHECK(story.said<ctl::Resume>().front().is_recoverable);
        story.hears(ctl::Resumed{});
        is_reported = true;
    }
    auto stop = a_stop();
    stop.keeps = true;
    story.hears(stop);
    CHECK(story.asked_for<G::HoldWorker>().size() == (is_reported ? 2 : 0));
    CHECK(story.asked_for<G::SignalLeader>().size() == (is_reported ? 0 : 2));
}

TEST_CASE("the server is notified that workers can be held, once, and by a resume") {
    Story story;
    run_workers(story);
    story.is(A::WorkerRecoverable{0, true});
    story.is(A::WorkerRecoverable{1, true});
    REQUIRE(story.said<ctl::Started>().size() == 1);
    CHECK(story.said<ctl::Started>().front().is_recoverable);
    story.asked();
    story.loses_server();
    story.pass(1s);
    story.link = story.asked_for<A::Connect>().back().link;
    story.is(A::LinkOpened{story.link, "10.0.0.2:40000", 2});
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK(story.said<ctl::Resume>().front().is_recoverable);
}
