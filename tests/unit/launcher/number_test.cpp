// SPDX-License-Identifier: Apache-2.0
#include "launcher/number.hpp"

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

TEST_CASE("a length of time is a number of seconds that is not negative") {
    CHECK(parse_seconds("30") == Duration{30s});
    CHECK(parse_seconds("0.25") == Duration{250ms});
    CHECK(parse_seconds("0") == Duration{0s});
    CHECK(parse_seconds("1e2") == Duration{100s});
    for (const auto* text : {"", "-1", "nan", "inf", "1e300", "3s", "1,5"})
        CHECK_FALSE(parse_seconds(text).has_value());
    CHECK(describe_seconds(30s) == "30");
    CHECK(describe_seconds(250ms) == "0.25");
}
