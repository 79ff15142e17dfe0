// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/number.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

TEST_CASE("a whole number is the whole text") {
    CHECK(parse_int("12") == 12);
    CHECK(parse_int(" +12 ") == 12);
    CHECK(parse_int("-3") == -3);
    for (const auto* text : {"", " ", "1x", "1 2", "0x1", "1.0", "+-1", "99999999999"})
        CHECK_FALSE(parse_int(text).has_value());
}

TEST_CASE("a length of time is seconds, or a number with its unit, and never negative") {
    CHECK(parse_duration("30") == Duration{30s});
    CHECK(parse_duration("0.25") == Duration{250ms});
    CHECK(parse_duration("0") == Duration{0s});
    CHECK(parse_duration("1e2") == Duration{100s});
    CHECK(parse_duration("100ms") == Duration{100ms});
    CHECK(parse_duration(" 2 m ") == Duration{120s});
    CHECK(parse_duration("1.5h") == Duration{5'400s});
    CHECK(parse_duration("7d") == Duration{7 * 86'400s});
    for (const auto* text : {"", "-1", "nan", "inf", "1e300", "3w", "ms", "2s m", "1,5"})
        CHECK_FALSE(parse_duration(text).has_value());
    CHECK(describe_seconds(30s) == "30");
    CHECK(describe_seconds(250ms) == "0.25");
}
