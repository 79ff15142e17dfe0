// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/worker_group.hpp"

#include "rendezvous/base/limits.hpp"
#include "tests/unit/agent/supervise/machine_story.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;

namespace {

using G = WorkerGroup;
using Effects = std::vector<G::Effect>;

const WorkerExit success{WorkerExit::Exited{0}};
const WorkerExit crash{WorkerExit::Killed{SIGSEGV}};
const WorkerExit by_sigterm{WorkerExit::Killed{SIGTERM}};

struct Story {
    explicit Story(int worker_count) : group(worker_count) {}

    WorkerGroup group;
    Effects asked;

    void at(Duration when, G::Event event) {
        group.handle(std::move(event), Instant{} + when, asked);
    }
    void spawn_all() {
        for (int rank = 0; rank < group.size(); ++rank)
            at(0s, G::Spawned{rank, 100 + rank});
    }
    /// The orders since the last call.
    Effects since() { return std::exchange(asked, {}); }
    /// Passes every deadline until `end`.
    void wait_until(Duration end) {
        while (group.next_deadline() && *group.next_deadline() <= Instant{} + end)
            at(*group.next_deadline() - Instant{}, G::DeadlinePassed{});
    }
    int count_of(const G::Effect& effect) const {
        int count = 0;
        for (const auto& each : asked)
            if (each == effect) ++count;
        return count;
    }
};

}  // namespace

namespace ddprun::agent {
// doctest prints what differs.
doctest::String toString(const std::vector<WorkerGroup::Effect>& effects) {
    return test::lines_of(effects);
}
}  // namespace ddprun::agent

TEST_CASE("a group has started when its last worker has, and succeeds when all exited with 0") {
    Story story(2);

    story.at(0s, G::Spawned{0, 100});
    CHECK(story.since().empty());
    story.at(0s, G::Spawned{1, 101});
    CHECK(story.since() == Effects{G::Started{}});
    story.at(1s, G::Exited{1, success});
    CHECK(story.since().empty());
    story.at(2s, G::Exited{0, success});
    CHECK(story.since() == Effects{G::Succeeded{}});

    CHECK(story.group.state() == G::State::succeeded);
    CHECK_FALSE(story.group.next_deadline());
}

TEST_CASE("a worker may exit before the others have started") {
    Story story(2);

    story.at(0s, G::Spawned{0, 100});
    story.at(0s, G::Exited{0, success});
    story.at(0s, G::Spawned{1, 101});
    story.at(0s, G::Exited{1, success});

    CHECK(story.asked == Effects{G::Started{}, G::Succeeded{}});
}

TEST_CASE("a failure is reported and the rest is left alone until a stop is requested") {
    Story story(3);
    story.spawn_all();
    story.since();

    story.at(1s, G::Exited{1, crash});

    CHECK(story.since() == Effects{G::Failed{1}});
    CHECK(story.group.state() == G::State::running);
}

TEST_CASE("a group with a failure never succeeds") {
    Story story(2);
    story.spawn_all();
    story.since();

    story.at(1s, G::Exited{0, crash});
    story.at(1s, G::Exited{1, success});

    CHECK(story.since() == Effects{G::Failed{0}});
}

TEST_CASE("a group waits for the signal of another process before it sends its own") {
    Story story(2);
    story.spawn_all();
    story.since();

    story.at(1s, G::StopRequested{SIGTERM, 30s, 2s});
    CHECK(story.since().empty());
    CHECK(story.group.next_deadline() == Instant{} + 3s);
    story.wait_until(3s);

    CHECK(story.since() == Effects{G::SignalLeader{0, SIGTERM}, G::SignalLeader{1, SIGTERM}});
    CHECK(story.group.next_deadline() == Instant{} + 31s);
}

TEST_CASE("stopping asks living leaders, and what the dead ones left behind") {
    Story story(3);
    story.spawn_all();
    story.at(1s, G::Exited{1, crash});
    story.since();

    story.at(1s, G::StopRequested{SIGTERM, 30s});
    CHECK(
        story.since() == Effects{
                             G::SignalLeader{0, SIGTERM},
                             G::SignalSession{1, SIGTERM},
                             G::SignalLeader{2, SIGTERM}});

    story.at(2s, G::Exited{0, by_sigterm});
    CHECK(story.since() == Effects{G::SignalSession{0, SIGTERM}});
    story.at(2s, G::Exited{2, by_sigterm});
    CHECK(story.since() == Effects{G::SignalSession{2, SIGTERM}, G::CountLeftovers{}});
    story.at(2s, G::LeftoversCounted{0});
    CHECK(story.since() == Effects{G::Ended{}});
    CHECK(story.group.is_over());
}

TEST_CASE("a group is not over while a grandchild lives, which is asked, then killed") {
    Story story(1);
    story.spawn_all();
    story.at(0s, G::StopRequested{SIGTERM, 30s});
    story.at(1s, G::Exited{0, by_sigterm});
    story.since();
    story.at(1s, G::LeftoversCounted{1});
    CHECK(story.since() == Effects{G::SignalLeftovers{SIGTERM}});
    story.at(1s, G::LeftoversCounted{1});
    CHECK(story.since() == Effects{});

    story.wait_until(29s);
    CHECK(story.count_of(G::KillLeftovers{}) == 0);
    CHECK(story.count_of(G::CountLeftovers{}) > 10);
    CHECK(story.group.state() == G::State::stopping);

    story.since();
    story.wait_until(30s);
    CHECK(story.count_of(G::KillLeftovers{}) == 1);
    story.at(30s, G::LeftoversCounted{0});
    CHECK(story.group.is_over());
}

TEST_CASE("leftovers that SIGINT or SIGQUIT does not end get SIGTERM, and keep their grace") {
    for (const int signal : {SIGINT, SIGQUIT}) {
        Story story(1);
        story.spawn_all();
        story.at(0s, G::StopRequested{signal, 30s});
        story.at(1s, G::Exited{0, by_sigterm});
        story.at(1s, G::LeftoversCounted{1});
        CHECK(story.count_of(G::SignalLeftovers{signal}) == 1);

        story.wait_until(1s + limits::leftovers_grace);
        CHECK(story.count_of(G::SignalLeftovers{SIGTERM}) == 1);
        story.wait_until(29s);
        CHECK(story.count_of(G::SignalLeftovers{SIGTERM}) == 1);
        CHECK(story.count_of(G::KillLeftovers{}) == 0);

        story.at(29s, G::LeftoversCounted{0});
        CHECK(story.group.is_over());
    }
}

TEST_CASE("a worker that ignores SIGTERM is killed at the end of the grace, leader by leader") {
    Story story(2);
    story.spawn_all();
    story.at(0s, G::StopRequested{SIGTERM, 5s});
    story.at(1s, G::Exited{0, by_sigterm});
    story.since();

    story.at(5s, G::DeadlinePassed{});

    CHECK(story.since() == Effects{G::KillSession{1}});
}

TEST_CASE("what survives SIGKILL is reported once and waited for") {
    Story story(2);
    story.spawn_all();
    story.at(0s, G::KillRequested{});
    CHECK(story.since() == Effects{G::Started{}, G::KillSession{0}, G::KillSession{1}});
    story.at(0s, G::Exited{0, crash});
    story.since();

    story.wait_until(60s);
    CHECK(story.since() == Effects{G::FoundStuck{{1}, 0}});

    story.at(61s, G::Exited{1, crash});
    story.at(61s, G::LeftoversCounted{0});
    CHECK(story.since() == Effects{G::CountLeftovers{}, G::Ended{}});
}

TEST_CASE("a stop during the start cancels what has not begun") {
    Story story(2);
    story.at(0s, G::Spawned{0, 100});

    story.at(0s, G::StopRequested{SIGTERM, 30s});
    CHECK(story.since() == Effects{G::CancelSpawns{}, G::SignalLeader{0, SIGTERM}});

    story.at(0s, G::Exited{1, WorkerExit{WorkerExit::NotExecuted{125, "x"}}});
    story.at(0s, G::Exited{0, by_sigterm});
    story.at(0s, G::LeftoversCounted{0});
    CHECK(story.since() == Effects{G::SignalSession{0, SIGTERM}, G::CountLeftovers{}, G::Ended{}});
}

TEST_CASE("a group that succeeded ends when a stop is requested") {
    Story story(1);
    story.spawn_all();
    story.at(1s, G::Exited{0, success});
    story.since();

    story.at(2s, G::StopRequested{SIGTERM, 30s});
    CHECK(story.since() == Effects{G::SignalSession{0, SIGTERM}, G::CountLeftovers{}});
    story.at(2s, G::LeftoversCounted{0});
    CHECK(story.since() == Effects{G::Ended{}});
}

TEST_CASE("an answer to a question that is not open any more changes nothing") {
    Story story(1);
    story.at(0s, G::LeftoversCounted{0});
    story.spawn_all();
    story.at(0s, G::LeftoversCounted{0});

    CHECK(story.asked == Effects{G::Started{}});
}

TEST_CASE("after the end of a group nothing happens to it") {
    Story story(1);
    story.spawn_all();
    story.at(0s, G::KillRequested{});
    story.at(0s, G::Exited{0, crash});
    story.at(0s, G::LeftoversCounted{0});
    REQUIRE(story.group.is_over());
    story.since();

    story.at(1s, G::StopRequested{SIGTERM, 1s});
    story.at(1s, G::KillRequested{});
    story.at(1s, G::LeftoversCounted{3});
    story.at(9s, G::DeadlinePassed{});

    CHECK(story.since().empty());
    CHECK_FALSE(story.group.next_deadline());
}

namespace {

G::StopRequested stop_or_hold() {
    return {SIGTERM, 30s, Duration{}, 10s};
}

/// Two workers that can be held, and the second one has crashed.
Story with_a_crash() {
    Story story(2);
    story.spawn_all();
    story.at(0s, G::Recoverable{0, true});
    story.at(0s, G::Recoverable{1, true});
    story.at(1s, G::Exited{1, crash});
    story.since();
    story.at(1s, stop_or_hold());
    return story;
}

}  // namespace

TEST_CASE(
    "a group is held when the workers that can be are, and the others and all they left are gone") {
    auto story = with_a_crash();
    CHECK(story.since() == Effects{G::HoldWorker{0, 10s}, G::SignalSession{1, SIGTERM}});

    story.at(2s, G::Held{{0, 41, true}});
    CHECK(story.since() == Effects{G::CountLeftovers{}});
    story.at(2s, G::LeftoversCounted{1});
    CHECK(story.since() == Effects{G::SignalLeftovers{SIGTERM}});
    story.at(3s, G::LeftoversCounted{0});

    CHECK(story.since() == Effects{G::HeldAll{}});
    CHECK(story.group.state() == G::State::held);
    CHECK_FALSE(story.group.is_over());
    CHECK_FALSE(story.group.next_deadline());
    CHECK(story.group.kept() == std::vector<control::KeptWorker>{{0, 41, true}});
    SUBCASE("a held worker that ends is held no longer") {
        story.at(9s, G::Exited{0, crash});
        CHECK(story.since() == Effects{G::KillLeftovers{}, G::HeldAll{}});
        CHECK(story.group.kept().empty());
    }
    SUBCASE("a stop ends it, too") {
        story.at(9s, G::StopRequested{SIGTERM, 30s});
        CHECK(story.since() == Effects{G::SignalLeader{0, SIGTERM}});
        CHECK(story.group.kept().empty());
        story.at(10s, G::Exited{0, by_sigterm});
        story.at(10s, G::LeftoversCounted{0});
        CHECK(story.group.is_over());
    }
    SUBCASE("SIGKILL is for held ones, too") {
        story.at(9s, G::KillRequested{});
        CHECK(story.since() == Effects{G::KillSession{0}});
    }
}

TEST_CASE("the worker that is not held in time is killed, and the held one stays") {
    Story story(2);
    story.spawn_all();
    story.at(0s, G::Recoverable{0, true});
    story.at(0s, G::Recoverable{1, true});
    story.at(0s, stop_or_hold());
    story.at(1s, G::Held{{0, 41, true}});
    story.since();

    story.wait_until(39s);
    CHECK(story.since() == Effects{G::SignalLeader{1, SIGTERM}});
    story.wait_until(40s);
    CHECK(story.count_of(G::KillSession{1}) == 1);
    CHECK(story.count_of(G::KillSession{0}) == 0);
    story.at(40s, G::Exited{1, by_sigterm});
    story.at(40s, G::LeftoversCounted{0});
    CHECK(story.group.state() == G::State::held);
}

TEST_CASE(
    "a second request leaves a worker the time that it has to be held, and its grace after that") {
    Story story(1);
    story.spawn_all();
    story.at(0s, G::Recoverable{0, true});
    story.at(0s, G::StopRequested{SIGTERM, 1s, Duration{}, 10s});
    story.at(1s, G::StopRequested{SIGTERM, 1s, Duration{}, 10s});
    story.since();
    story.wait_until(9s);
    CHECK(story.since().empty());
    story.wait_until(10s);
    CHECK(story.since() == Effects{G::SignalLeader{0, SIGTERM}});
    story.wait_until(11s);
    CHECK(story.count_of(G::KillSession{0}) == 1);
}

TEST_CASE("where no worker can be held a request to hold is a plain stop") {
    Story story(1);
    story.spawn_all();
    story.at(0s, stop_or_hold());
    CHECK(story.group.next_deadline() == Instant{} + 30s);
}

TEST_CASE("every event has an answer in every state of a group") {
    const auto in_state = [](G::State state) {
        Story story(1);
        if (state != G::State::starting) story.at(0s, G::Spawned{0, 100});
        if (state == G::State::succeeded) story.at(0s, G::Exited{0, success});
        if (state == G::State::stopping || state == G::State::ended)
            story.at(0s, G::StopRequested{SIGTERM, 30s});
        if (state == G::State::held) {
            story.at(0s, G::Recoverable{0, true});
            story.at(0s, stop_or_hold());
            story.at(0s, G::Held{{0, std::nullopt, false}});
            story.at(0s, G::LeftoversCounted{0});
        }
        if (state == G::State::ended) {
            story.at(0s, G::Exited{0, by_sigterm});
            story.at(0s, G::LeftoversCounted{0});
        }
        REQUIRE(story.group.state() == state);
        story.since();
        return story;
    };
    // The shell guarantees that Spawned and Exited come once per worker, in that order.
    const std::vector<G::Event> always_possible{
        G::LeftoversCounted{0},
        G::LeftoversCounted{1},
        G::StopRequested{SIGTERM, 30s},
        stop_or_hold(),
        G::Recoverable{0, true},
        G::Recoverable{0, false},
        G::Held{{0, 1, true}},
        G::KillRequested{},
        G::DeadlinePassed{}};
    for (const auto state :
         {G::State::starting,
          G::State::running,
          G::State::succeeded,
          G::State::stopping,
          G::State::held,
          G::State::ended})
        for (const auto& event : always_possible) {
            CAPTURE(describe(event));
            auto story = in_state(state);
            story.at(1s, event);
            story.at(1s, event);
            CHECK((state != G::State::ended || story.asked.empty()));
            CHECK(
                story.group.is_over() ==
                (story.count_of(G::Ended{}) == 1 || state == G::State::ended));
            for (const auto& effect : story.asked)
                CHECK_FALSE(describe(effect).empty());
        }
}
