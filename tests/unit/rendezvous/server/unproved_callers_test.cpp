// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/unproved_callers.hpp"

#include <doctest/doctest.h>

#include <memory>

using namespace ddprun::server;

TEST_CASE("callers that have proved nothing are bounded, those of one address sooner") {
    const auto callers = std::make_shared<UnprovedCallers>(3, 2);
    auto first = std::make_unique<UnprovedPlace>(callers, "a");
    const UnprovedPlace second(callers, "a");
    CHECK(
        callers->objection_to("a") ==
        "too many callers of one address that have not proved the secret: 2");
    CHECK(callers->objection_to("b").empty());
    auto third = std::make_unique<UnprovedPlace>(callers, "b");
    CHECK(callers->objection_to("c") == "too many callers that have not proved the secret: 3");
    third.reset();
    CHECK(callers->objection_to("c").empty());
    first.reset();
    CHECK(callers->objection_to("a").empty());
    CHECK(callers->size() == 1);
}
