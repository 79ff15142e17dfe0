// SPDX-License-Identifier: Apache-2.0
#include "agent/channel/progress_pace.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent::channel;
using namespace std::chrono_literals;
using control::WorkPhase;
using control::WorkProgress;

namespace {

/// Two workers whose pages are read at these moments. Each change is 50 ms old then.
struct Pages {
    explicit Pages(std::optional<std::uint64_t> done_step = std::nullopt) : pace(done_step) {}

    std::optional<control::NodeProgress> read(
        Duration at, WorkProgress first, WorkProgress second, bool is_last = false) {
        const Instant now{at};
        return pace.on_read({{{0, first}, now - 50ms}, {{1, second}, now - 50ms}}, is_last, now);
    }

    ProgressPace pace;
};

WorkProgress at_step(std::uint64_t step, WorkPhase phase = WorkPhase::train) {
    return {step, phase};
}

const WorkProgress no_step{std::nullopt, WorkPhase::start};

}  // namespace

TEST_CASE("progress is passed on once a second, with the age of the last change") {
    Pages pages;
    const auto first = pages.read(10s, at_step(1), at_step(1));
    CHECK(first == control::NodeProgress{0, {{0, at_step(1)}, {1, at_step(1)}}, 50ms});
    CHECK_FALSE(pages.read(10'100ms, at_step(2), at_step(2)));
    CHECK_FALSE(pages.read(10'900ms, at_step(9), at_step(9)));
    const auto later = pages.read(11s, at_step(10), at_step(9));
    CHECK(later == control::NodeProgress{0, {{0, at_step(10)}, {1, at_step(9)}}, 50ms});
    CHECK_FALSE(pages.read(20s, at_step(10), at_step(9)));
}

TEST_CASE("what the ledger depends on is passed on at once") {
    Pages pages{7};
    pages.read(10s, no_step, no_step);
    CHECK(pages.read(10'100ms, at_step(1), no_step));
    CHECK(pages.read(10'200ms, at_step(1), at_step(1)));
    CHECK_FALSE(pages.read(10'300ms, at_step(7), at_step(7)));
    CHECK(pages.read(10'400ms, at_step(7), at_step(8)));
    CHECK(pages.read(10'500ms, at_step(8), at_step(8)));
    CHECK_FALSE(pages.read(10'600ms, at_step(9), at_step(9)));
    CHECK(pages.read(10'700ms, at_step(9, WorkPhase::save), at_step(9)));
    CHECK_FALSE(pages.read(10'800ms, at_step(9, WorkPhase::save), at_step(9, WorkPhase::eval)));
    CHECK(pages.read(10'900ms, at_step(9), at_step(9)));
}

TEST_CASE("what a worker showed last is passed on when it has ended") {
    Pages pages;
    pages.read(10s, at_step(1), at_step(1));
    CHECK(pages.read(10'100ms, at_step(2), at_step(1), true));
    CHECK_FALSE(pages.read(10'200ms, at_step(2), at_step(1), true));
}

TEST_CASE("whatever moment a worker writes, the age is a possible one") {
    ProgressPace pace;
    const Instant now{10s};
    const auto future = pace.on_read({{{0, at_step(1)}, Instant::max()}}, true, now);
    REQUIRE(future);
    CHECK(future->age == Duration{});
    const auto past = pace.on_read({{{0, at_step(2)}, Instant{}}}, true, now);
    REQUIRE(past);
    CHECK(past->age == 2s);
}
