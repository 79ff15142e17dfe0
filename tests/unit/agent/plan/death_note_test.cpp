// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/death_note.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace ddprun::agent;

TEST_CASE("a death is added behind those that are there already") {
    CHECK(with_deaths("none", {5}) == "5");
    CHECK(with_deaths("5", {3}) == "5 3");
    CHECK(with_deaths("none", {8, 9}) == "8 9");
}

TEST_CASE("a death that is there already is not written again") {
    CHECK(with_deaths("5", {5}) == std::nullopt);
    CHECK(with_deaths("15 3", {3, 15}) == std::nullopt);
    CHECK(with_deaths("15", {5}) == "15 5");
}

TEST_CASE("a list of deaths does not grow for ever") {
    const std::string full(limits::max_deaths_bytes, '1');

    CHECK(with_deaths(full, {5}) == std::nullopt);
}
