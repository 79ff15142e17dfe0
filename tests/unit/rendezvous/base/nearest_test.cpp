// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/nearest.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace ddprun;

TEST_CASE("the nearest word is the one with the fewest edits, if that is close at all") {
    constexpr std::array<std::string_view, 3> words{"join_timeout", "last_call_timeout", "is_host"};

    CHECK(nearest("join-timeout", words) == "join_timeout");
    CHECK(nearest("joint_imeout", words) == "join_timeout");
    CHECK(nearest("is_hots", words) == "is_host");
    CHECK(nearest("last_call", words) == "last_call_timeout");
    CHECK(nearest("join-limit", words) == std::nullopt);
    CHECK_FALSE(nearest("wibble", words).has_value());
    CHECK_FALSE(nearest("", words).has_value());
}
