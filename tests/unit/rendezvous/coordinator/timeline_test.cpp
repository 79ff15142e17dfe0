// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/timeline.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using namespace std::chrono_literals;
using control::Goodput;
using control::GoodputPhase;
using Kind = control::Cause::Kind;

namespace {

Goodput totals(Duration forming, Duration productive) {
    Goodput goodput;
    goodput[GoodputPhase::forming] = forming;
    goodput[GoodputPhase::productive] = productive;
    return goodput;
}

}  // namespace

TEST_CASE("a round of the timeline has its begin, its phases, its end and its root cause") {
    Timeline timeline;
    timeline.reach(GoodputPhase::forming);
    timeline.end_round({Kind::node_lost, "no round yet"}, totals(1s, 0s));
    CHECK(timeline.rounds().empty());

    timeline.begin_round(0, totals(1s, 0s));
    CHECK(timeline.is_in(0));
    CHECK_FALSE(timeline.is_in(1));
    for (const auto phase :
         {GoodputPhase::starting,
          GoodputPhase::starting,
          GoodputPhase::productive,
          GoodputPhase::saving,
          GoodputPhase::productive})
        timeline.reach(phase);
    timeline.end_round({Kind::worker_failed, "rank 3 exited with code 1"}, totals(1s, 5s));

    CHECK_FALSE(timeline.is_in(0));
    REQUIRE(timeline.rounds().size() == 1);
    const auto& round = timeline.rounds().front();
    CHECK(round.begin.sum() == 1s);
    const std::vector reached{
        GoodputPhase::starting, GoodputPhase::productive, GoodputPhase::saving};
    CHECK(round.phases == reached);
    CHECK(round.changes == 3);
    REQUIRE(round.end);
    CHECK(round.end->what.root_cause == "rank 3 exited with code 1");
    CHECK(round.spent() == totals(0s, 5s));
}

TEST_CASE("a hundred thousand rounds are a thousand and counts, and no time is lost") {
    Timeline timeline;
    constexpr int count = 100'000;
    for (int i = 0; i < count; ++i) {
        timeline.begin_round(i, totals(1s * i, 2s * i));
        timeline.end_round(
            {i % 2 == 0 ? Kind::worker_failed : Kind::node_lost, "cause"},
            totals(1s * i, 2s * (i + 1)));
    }
    CHECK(timeline.rounds().size() == Timeline::max_rounds);
    CHECK(timeline.rounds().front().number == count - 1'000);
    const auto& older = timeline.older();
    CHECK(older.count == count - 1'000);
    CHECK(older.by_cause.at(Kind::worker_failed) == 49'500);
    CHECK(older.by_cause.at(Kind::node_lost) == 49'500);
    CHECK(older.spent == totals(0s, 2s * 99'000));
}

TEST_CASE("a round that is replaced before it ended ends without a cause, and long texts are cut") {
    Timeline timeline;
    timeline.begin_round(4, totals(0s, 0s));
    timeline.begin_round(5, totals(3s, 0s));
    REQUIRE(timeline.rounds().front().end);
    CHECK_FALSE(timeline.rounds().front().end->what.kind);

    std::string text(Timeline::max_text_bytes - 1, 'x');
    timeline.end_round({Kind::node_lost, text + "\u00e9 and more"}, totals(3s, 1s));
    CHECK(timeline.rounds().back().end->what.root_cause == text + "...");
}
