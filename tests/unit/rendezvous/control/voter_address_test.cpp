// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/voter_address.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace ddprun::control;

TEST_CASE("the address of a voter says whether it is a witness") {
    for (const std::string text :
         {"10.0.0.1:4000", "witness/10.0.0.3:29400", "[fe80::1]:7", "witness/[fe80::1]:7"}) {
        const auto parsed = parse_voter_address(text);
        REQUIRE(parsed.has_value());
        CHECK(parsed->is_witness == text.starts_with("witness/"));
        CHECK(parsed->to_string() == text);
    }
    CHECK(parse_voter_address("witness/10.0.0.3:29400")->endpoint == Endpoint{"10.0.0.3", 29'400});
    CHECK_FALSE(parse_voter_address("witness/[fe80").has_value());
    CHECK_FALSE(parse_voter_address("10.0.0.1:x").has_value());
}
