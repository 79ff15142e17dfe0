// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/unproved_callers.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>

using namespace ddprun;
using namespace ddprun::server;
using namespace std::chrono_literals;

namespace {

const Handshakes::Caller flood{"10.0.0", "10.0.0.1"};
const Handshakes::Caller member{"10.0.1", "10.0.1.1"};

}  // namespace

TEST_CASE("a flood of one address displaces its own callers, and no caller of another one") {
    const auto callers = std::make_shared<UnprovedCallers>(3);
    const Instant start{};
    UnprovedPlace oldest(callers, flood, start);
    int closed = 0;
    oldest.close_with([&] { ++closed; });
    const UnprovedPlace second(callers, flood, start);
    const UnprovedPlace third(callers, flood, start);

    const UnprovedPlace joins(callers, member, start);
    CHECK(oldest.is_taken());
    CHECK(closed == 1);
    CHECK_FALSE(joins.is_taken());
    CHECK(callers->size() == 3);

    // The others have not had the time to send anything.
    const UnprovedPlace too_early(callers, flood, start);
    CHECK(too_early.is_taken());
    CHECK_FALSE(second.is_taken());
    const UnprovedPlace later(callers, flood, start + 1h);
    CHECK(second.is_taken());
    CHECK_FALSE(later.is_taken());
    CHECK_FALSE(joins.is_taken());
    CHECK(callers->size() == 3);
}

TEST_CASE("a caller that has gone, or is proving a secret, leaves its place") {
    const auto callers = std::make_shared<UnprovedCallers>(1);
    const Instant start{};
    auto first = std::make_unique<UnprovedPlace>(callers, flood, start);
    first.reset();
    CHECK(callers->size() == 0);
    const UnprovedPlace second(callers, flood, start);
    CHECK_FALSE(second.is_taken());
}
