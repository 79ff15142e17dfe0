// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/worker.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;

namespace {

using Effects = std::vector<Worker::Effect>;

const WorkerExit success{WorkerExit::Exited{0}};
const WorkerExit by_sigterm{WorkerExit::Killed{SIGTERM}};

/// A worker on a simulated clock, and everything that it ordered.
struct Story {
    Worker worker;
    Effects asked;

    Instant moment(Duration since_start) const { return Instant{} + since_start; }
    void at(Duration when, Worker::Event event) {
        worker.handle(std::move(event), moment(when), asked);
    }
    Worker::StopRequested stop(Duration kill_at, int signal = SIGTERM) const {
        return {signal, moment(kill_at)};
    }
};

}  // namespace

TEST_CASE("a worker that obeys is asked once and never killed") {
    Story story;

    story.at(0s, Worker::Spawned{100});
    story.at(1s, story.stop(31s));
    story.at(2s, Worker::Exited{by_sigterm});
    story.at(40s, Worker::DeadlinePassed{});

    CHECK(story.asked == Effects{Worker::SignalLeader{SIGTERM}, Worker::SignalSession{SIGTERM}});
    CHECK(story.worker.is_gone());
    CHECK_FALSE(story.worker.next_deadline());
}

TEST_CASE("a worker that ignores SIGTERM is killed when its grace is over") {
    Story story;
    story.at(0s, Worker::Spawned{100});
    story.at(0s, story.stop(30s));

    story.at(29s, Worker::DeadlinePassed{});
    CHECK(story.asked == Effects{Worker::SignalLeader{SIGTERM}});
    CHECK(story.worker.next_deadline() == story.moment(30s));

    story.at(30s, Worker::DeadlinePassed{});
    CHECK(story.asked == Effects{Worker::SignalLeader{SIGTERM}, Worker::KillSession{}});
    CHECK_FALSE(story.worker.next_deadline());
}

TEST_CASE("a stop that comes before the process is there reaches it as soon as it is") {
    Story story;

    story.at(0s, story.stop(30s, SIGINT));
    CHECK(story.asked.empty());
    story.at(1s, Worker::Spawned{100});

    CHECK(story.asked == Effects{Worker::SignalLeader{SIGINT}});
    CHECK(story.worker.state() == Worker::State::stopping);
}

TEST_CASE("a kill that comes before the process is there reaches it as soon as it is") {
    Story story;

    story.at(0s, Worker::KillRequested{});
    story.at(1s, Worker::Spawned{100});

    CHECK(story.asked == Effects{Worker::KillSession{}});
}

TEST_CASE("what a dead worker left behind is asked to stop as well") {
    Story story;
    story.at(0s, Worker::Spawned{100});
    story.at(1s, Worker::Exited{success});
    CHECK(story.asked.empty());

    story.at(2s, story.stop(30s));

    CHECK(story.asked == Effects{Worker::SignalSession{SIGTERM}});
    CHECK_FALSE(story.worker.next_deadline());
}

TEST_CASE("a program that could not be executed left nothing behind") {
    Story story;
    story.at(0s, Worker::Exited{WorkerExit{WorkerExit::NotExecuted{2, "/no/such"}}});

    story.at(1s, story.stop(30s));
    story.at(1s, Worker::KillRequested{});

    CHECK(story.asked.empty());
}

TEST_CASE("a second stop shortens the grace and does not signal again") {
    Story story;
    story.at(0s, Worker::Spawned{100});
    story.at(0s, story.stop(30s));

    story.at(1s, story.stop(6s, SIGINT));
    CHECK(story.worker.next_deadline() == story.moment(6s));
    story.at(2s, story.stop(60s));
    CHECK(story.worker.next_deadline() == story.moment(6s));

    CHECK(story.asked == Effects{Worker::SignalLeader{SIGTERM}});
}

TEST_CASE("a worker that has the signal from another process gets no second one") {
    Story story;
    story.at(0s, Worker::Spawned{100});

    story.at(1s, Worker::StopRequested{SIGTERM, story.moment(31s), std::nullopt});
    story.at(2s, Worker::DeadlinePassed{});
    CHECK(story.asked.empty());
    CHECK(story.worker.next_deadline() == story.moment(31s));

    story.at(31s, Worker::DeadlinePassed{});
    CHECK(story.asked == Effects{Worker::KillSession{}});
}

TEST_CASE("a worker that is being started may have missed the signal of another process") {
    Story story;
    story.at(0s, Worker::StopRequested{SIGTERM, story.moment(30s), std::nullopt});

    story.at(1s, Worker::Spawned{100});

    CHECK(story.asked == Effects{Worker::SignalLeader{SIGTERM}});
}

TEST_CASE("the signal of another process is waited for, and then sent") {
    Story story;
    story.at(0s, Worker::Spawned{100});
    story.at(0s, Worker::StopRequested{SIGTERM, story.moment(30s), story.moment(1s)});
    CHECK(story.asked.empty());
    CHECK(story.worker.next_deadline() == story.moment(1s));

    SUBCASE("it comes") {
        story.at(500ms, Worker::StopRequested{SIGTERM, story.moment(30s), std::nullopt});
        story.at(1s, Worker::DeadlinePassed{});
        CHECK(story.asked.empty());
        CHECK(story.worker.next_deadline() == story.moment(30s));
    }
    SUBCASE("it does not come") {
        story.at(1s, Worker::DeadlinePassed{});
        story.at(2s, story.stop(30s));
        CHECK(story.asked == Effects{Worker::SignalLeader{SIGTERM}});
    }
    SUBCASE("a signal to this agent alone") {
        story.at(500ms, story.stop(30s));
        story.at(1s, Worker::DeadlinePassed{});
        CHECK(story.asked == Effects{Worker::SignalLeader{SIGTERM}});
    }
    SUBCASE("the worker ends") {
        story.at(500ms, Worker::Exited{by_sigterm});
        CHECK_FALSE(story.worker.next_deadline());
        CHECK(story.asked == Effects{Worker::SignalSession{SIGTERM}});
    }
}

namespace {

Worker::HoldRequested hold(Duration until) {
    return {Instant{} + until, SIGTERM, 30s};
}

}  // namespace

TEST_CASE("a worker that can be held gets no signal, and waits") {
    Story story;
    story.at(0s, Worker::Spawned{100});
    story.at(0s, Worker::Recoverable{true});
    story.at(1s, hold(11s));
    CHECK(story.asked == Effects{Worker::Hold{}});
    CHECK(story.worker.next_deadline() == story.moment(11s));

    story.at(2s, Worker::Held{});
    CHECK(story.worker.is_held());
    CHECK_FALSE(story.worker.next_deadline());
    SUBCASE("another request changes nothing") {
        story.at(20s, hold(30s));
        CHECK(story.asked == Effects{Worker::Hold{}});
    }
    SUBCASE("until it is stopped") {
        story.at(20s, story.stop(50s));
        CHECK(story.asked == Effects{Worker::Hold{}, Worker::SignalLeader{SIGTERM}});
        CHECK(story.worker.next_deadline() == story.moment(50s));
    }
    SUBCASE("or killed") {
        story.at(20s, Worker::KillRequested{});
        CHECK(story.asked == Effects{Worker::Hold{}, Worker::KillSession{}});
    }
    SUBCASE("one that nothing reaches any more is killed") {
        story.at(20s, Worker::Recoverable{false});
        CHECK(story.asked == Effects{Worker::Hold{}, Worker::KillSession{}});
        CHECK(story.worker.is_held());
        story.at(21s, Worker::Exited{by_sigterm});
        CHECK(story.worker.is_gone());
    }
}

TEST_CASE("a worker that is not held in time is stopped, and has its whole grace then") {
    Story story;
    story.at(0s, Worker::Spawned{100});
    story.at(0s, Worker::Recoverable{true});
    story.at(1s, hold(11s));
    SUBCASE("it takes too long") {
        story.at(11s, Worker::DeadlinePassed{});
        CHECK(story.worker.next_deadline() == story.moment(41s));
    }
    SUBCASE("its channel is closed") {
        story.at(3s, Worker::Recoverable{false});
        CHECK(story.worker.next_deadline() == story.moment(33s));
    }
    CHECK(story.asked == Effects{Worker::Hold{}, Worker::SignalLeader{SIGTERM}});
    story.at(12s, Worker::Held{});
    CHECK_FALSE(story.worker.is_held());
}

TEST_CASE("a worker that cannot be held is stopped at once") {
    Story story;
    story.at(0s, Worker::Spawned{100});
    story.at(1s, hold(11s));
    CHECK(story.asked == Effects{Worker::SignalLeader{SIGTERM}});
    CHECK(story.worker.next_deadline() == story.moment(31s));
}

TEST_CASE("every event has an answer in every state of a worker") {
    const auto in_state = [](Worker::State state) {
        Story story;
        if (state != Worker::State::starting) story.at(0s, Worker::Spawned{100});
        const bool is_asked = state == Worker::State::holding || state == Worker::State::held;
        if (is_asked) story.at(0s, Worker::Recoverable{true});
        if (is_asked) story.at(0s, hold(10s));
        if (state == Worker::State::held) story.at(0s, Worker::Held{});
        if (state == Worker::State::stopping) story.at(0s, story.stop(30s));
        if (state == Worker::State::gone) story.at(0s, Worker::Exited{success});
        REQUIRE(story.worker.state() == state);
        return story;
    };
    const std::vector<Worker::Event> always_possible{
        Worker::StopRequested{SIGTERM, Instant{} + 30s},
        Worker::StopRequested{SIGTERM, Instant{} + 30s, std::nullopt},
        Worker::StopRequested{SIGTERM, Instant{} + 30s, Instant{} + 2s},
        Worker::Recoverable{true},
        Worker::Recoverable{false},
        hold(10s),
        Worker::Held{},
        Worker::KillRequested{},
        Worker::DeadlinePassed{}};
    for (const auto state :
         {Worker::State::starting,
          Worker::State::running,
          Worker::State::holding,
          Worker::State::held,
          Worker::State::stopping,
          Worker::State::gone})
        for (const auto& event : always_possible) {
            CAPTURE(describe(event));
            auto story = in_state(state);
            story.at(1s, event);
            story.at(1s, event);
            CHECK(story.asked.size() <= 3);
            for (const auto& effect : story.asked)
                CHECK_FALSE(describe(effect).empty());
        }
}
