// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/death_reports.hpp"

#include "agent/plan/death_note.hpp"
#include "worker_sdk/src/store_names.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using groups::first_of_group;

TEST_CASE("agents and workers mean the same key by the deaths of a round") {
    // The key on the wire, where clients put a slash in front.
    CHECK(agent::store_names::deaths("inc", 3, 1) == "/" + store_names::deaths("inc", 3, 1));
    CHECK(agent::store_names::no_deaths == store_names::no_deaths);
}

TEST_CASE("the first death is that of the first rank in the list that is in the group") {
    CHECK(first_of_group("none", {}, 4) == std::nullopt);
    CHECK(first_of_group("3", {}, 4) == 3);
    CHECK(first_of_group("3 1", {}, 4) == 3);
    CHECK(first_of_group("3 1", {0, 1}, 2) == 1);
    CHECK(first_of_group("3 5", {5, 3}, 2) == 1);
    CHECK(first_of_group("2", {0, 1}, 2) == std::nullopt);
}

TEST_CASE("an invalid list of deaths names no rank") {
    for (const auto* text : {"", "x", "-1", "4", "99999999999999999999", " "}) {
        CAPTURE(text);
        CHECK(first_of_group(text, {}, 4) == std::nullopt);
    }
}
