// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/wait_watch.hpp"

#include <doctest/doctest.h>

#include <optional>

using namespace ddprun;
using namespace ddprun::server;
using namespace std::chrono_literals;
using Step = WaitWatch::Step;

namespace {

Instant at(Duration moment) {
    return Instant{} + moment;
}

std::optional<WaitWatch::Longest> waiting(const char* key, Duration since) {
    return WaitWatch::Longest{key, at(since)};
}

}  // namespace

TEST_CASE("a wait is reported when it is long, and again while it lasts") {
    WaitWatch watch{WaitWatch::Limits{}};
    CHECK(watch.look(std::nullopt, at(5s)) == Step::none);
    CHECK(watch.look(waiting("a", 10s), at(39s)) == Step::none);
    CHECK(watch.look(waiting("a", 10s), at(40s)) == Step::report);
    CHECK(watch.look(waiting("a", 10s), at(69s)) == Step::none);
    CHECK(watch.look(waiting("a", 10s), at(70s)) == Step::report);
}

TEST_CASE("another key is reported at once, and the end of long waits once") {
    WaitWatch watch{WaitWatch::Limits{}};
    CHECK(watch.look(waiting("a", 0s), at(30s)) == Step::report);
    CHECK(watch.look(waiting("b", 2s), at(35s)) == Step::report);
    CHECK(watch.look(waiting("c", 38s), at(40s)) == Step::report_end);
    CHECK(watch.look(std::nullopt, at(45s)) == Step::none);
    CHECK(watch.look(waiting("b", 20s), at(50s)) == Step::report);
}

TEST_CASE("of cancelled waits the first long enough is reported, and no other for a while") {
    WaitWatch watch{WaitWatch::Limits{}};
    CHECK_FALSE(watch.cancelled(999ms, at(10s)));
    CHECK(watch.cancelled(1s, at(10s)));
    CHECK_FALSE(watch.cancelled(10min, at(14s)));
    CHECK(watch.cancelled(2s, at(15s)));
}
