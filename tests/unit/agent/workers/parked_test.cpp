// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/parked.hpp"

#include "rendezvous/base/limits.hpp"
#include "tests/unit/agent/supervise/machine_story.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;

namespace {

using P = Parked;
using Lines = std::vector<std::string>;

/// A node with two workers.
struct Story : test::LineStory<P> {
    Story() : LineStory{P{2}} {}

    /// Passes the time until the machine's next deadline.
    Lines waits() {
        now = machine.next_deadline().value();
        return is(P::DeadlinePassed{});
    }
    void parks_both() {
        is(P::WorkersStarted{});
        waits();
        is(P::Ready{0, 100});
        is(P::Ready{1, 200});
    }
};

}  // namespace

TEST_CASE("after a round's first step one process after the other imports") {
    Story story;
    CHECK(story.is(P::WorkersStarted{}).empty());
    story.now += 1s;
    CHECK(story.is(P::StepSeen{}).empty());
    CHECK(story.machine.next_deadline() == story.now + limits::parking_after_step);
    CHECK(story.is(P::DeadlinePassed{}).empty());
    CHECK(story.waits() == Lines{"start 0"});
    CHECK(story.is(P::Ready{0, 100}) == Lines{"start 1"});
    CHECK(story.is(P::Ready{1, 200}) == Lines{"note 2 parked, 300 bytes"});
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("where no step is shown they wait longer, and without a round none starts") {
    Story story;
    CHECK(story.is(P::StepSeen{}).empty());
    CHECK_FALSE(story.machine.next_deadline());
    story.is(P::WorkersStarted{});
    CHECK(story.machine.next_deadline() == Instant{} + limits::parking_without_steps);
    story.is(P::RoundEnded{});
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("a parked process is taken once, and the next one starts in the new round") {
    Story story;
    story.parks_both();
    story.is(P::RoundEnded{});
    CHECK(story.is(P::TakeRequested{0}) == Lines{"hand over 0"});
    CHECK(story.is(P::HandedOver{0}).empty());
    CHECK(story.machine.state(0) == P::State::absent);
    story.is(P::TakeRequested{1});
    CHECK(story.is(P::HandOverFailed{1}) == Lines{"kill 1"});
    // A second crash at once: both start cold.
    CHECK(story.is(P::TakeRequested{1}).empty());
    story.is(P::WorkersStarted{});
    CHECK(story.machine.state(0) == P::State::absent);
    CHECK(story.waits() == Lines{"start 0"});
}

TEST_CASE("a round that is stopped while its workers start leaves nothing taken") {
    Story story;
    story.parks_both();
    story.is(P::RoundEnded{});
    story.is(P::TakeRequested{0});
    story.is(P::TakeRequested{1});
    story.is(P::HandedOver{0});
    // Rank 1 was cancelled: not all workers have started.
    story.is(P::HandOverFailed{1});
    story.is(P::RoundEnded{});
    CHECK(story.is(P::TakeRequested{0}).empty());
    CHECK(story.is(P::TakeRequested{1}).empty());
    CHECK(story.machine.state(0) == P::State::absent);
}

TEST_CASE("what is taken when the attempts end is still settled") {
    Story story;
    story.is(P::WorkersStarted{});
    story.waits();
    story.is(P::Ready{0, 100});
    story.is(P::TakeRequested{0});
    story.is(P::Unfit{1, "m reads RANK"});
    CHECK(story.machine.state(0) == P::State::taken);
    SUBCASE("it has its place") {
        CHECK(story.is(P::HandedOver{0}).empty());
    }
    SUBCASE("another one is started in its place") {
        CHECK(story.is(P::HandOverFailed{0}) == Lines{"kill 0"});
    }
    CHECK(story.machine.state(0) == P::State::disqualified);
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("an import that depends on the rank ends the attempts, and is named once") {
    Story story;
    story.is(P::WorkersStarted{});
    story.waits();
    CHECK(story.is(P::Unfit{0, "m reads RANK"}) == Lines{"kill 0", "note off: m reads RANK"});
    CHECK(story.is(P::Ended{0, "killed"}).empty());
    CHECK_FALSE(story.machine.next_deadline());
    story.is(P::RoundEnded{});
    story.is(P::WorkersStarted{});
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("an import that hangs is killed, and the third failure is the last") {
    Story story;
    story.is(P::WorkersStarted{});
    for (int i = 1; i <= limits::max_parking_failures; ++i) {
        CHECK(story.waits() == Lines{"start 0"});
        const auto began_at = story.now;
        CHECK(story.waits() == Lines{"kill 0"});
        CHECK(story.now == began_at + limits::parking_timeout);
        CHECK_FALSE(story.machine.next_deadline());
        const auto lines = story.is(P::Ended{0, "hung"});
        CHECK(lines == (i < limits::max_parking_failures ? Lines{} : Lines{"note off: hung"}));
    }
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("a start that a stop has cancelled is no failure") {
    Story story;
    story.is(P::WorkersStarted{});
    for (int i = 0; i < 2 * limits::max_parking_failures; ++i) {
        CHECK(story.waits() == Lines{"start 0"});
        CHECK(story.is(P::Ended{0, ""}).empty());
    }
}

TEST_CASE("every event in every state has its answer") {
    const P::Event due = P::DeadlinePassed{};
    const std::vector<std::pair<std::string, std::vector<P::Event>>> states{
        {"absent", {}},
        {"importing", {P::WorkersStarted{}, due}},
        {"parked", {P::WorkersStarted{}, due, P::Ready{0, 1}}},
        {"taken", {P::WorkersStarted{}, due, P::Ready{0, 1}, P::TakeRequested{0}}},
        {"disqualified", {P::WorkersStarted{}, due, P::Unfit{0, "u"}}},
    };
    const std::vector<std::pair<std::string, P::Event>> events{
        {"started", P::WorkersStarted{}},
        {"step", P::StepSeen{}},
        {"round ended", P::RoundEnded{}},
        {"ready", P::Ready{0, 1}},
        {"unfit", P::Unfit{0, "u"}},
        {"ended", P::Ended{0, "e"}},
        {"take", P::TakeRequested{0}},
        {"handed over", P::HandedOver{0}},
        {"failed", P::HandOverFailed{0}},
        {"late", P::DeadlinePassed{}},
    };
    std::ostringstream table;
    for (const auto& [state, way] : states) {
        for (const auto& [name, event] : events) {
            Story story;
            for (const auto& step : way) {
                story.now += 20s;
                story.is(step);
            }
            story.now += 1h;
            table << state << ' ' << name << ':';
            for (const auto& line : story.is(event))
                table << ' ' << line << ';';
            table << ' ' << static_cast<int>(story.machine.state(0)) << '\n';
        }
    }
    CHECK(table.str() == R"(absent started: 0
absent step: 0
absent round ended: 0
absent ready: 0
absent unfit: 0
absent ended: 0
absent take: 0
absent handed over: 0
absent failed: 0
absent late: 0
importing started: 1
importing step: 1
importing round ended: 1
importing ready: start 1; 2
importing unfit: kill 0; note off: u; 4
importing ended: 0
importing take: 1
importing handed over: 1
importing failed: 1
importing late: kill 0; 1
parked started: 2
parked step: 2
parked round ended: 2
parked ready: 2
parked unfit: 2
parked ended: 0
parked take: hand over 0; 3
parked handed over: 2
parked failed: 2
parked late: kill 1; 2
taken started: 3
taken step: 3
taken round ended: 3
taken ready: 3
taken unfit: 3
taken ended: 3
taken take: kill 0; 0
taken handed over: 0
taken failed: kill 0; 0
taken late: kill 1; 3
disqualified started: 4
disqualified step: 4
disqualified round ended: 4
disqualified ready: 4
disqualified unfit: 4
disqualified ended: 4
disqualified take: 4
disqualified handed over: 4
disqualified failed: 4
disqualified late: 4
)");
}
