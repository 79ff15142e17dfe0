// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/handshakes.hpp"

#include <doctest/doctest.h>

using namespace ddprun;
using namespace std::chrono_literals;
using server::Handshakes;

namespace {

constexpr Instant start{};

}  // namespace

TEST_CASE("up to the limit no handshake is closed") {
    Handshakes handshakes(2);
    CHECK_FALSE(handshakes.add({1}, "a", start).has_value());
    CHECK_FALSE(handshakes.add({2}, "b", start).has_value());
    handshakes.remove({1});
    handshakes.remove({1});
    CHECK_FALSE(handshakes.add({3}, "c", start).has_value());
    CHECK(handshakes.size() == 2);
}

TEST_CASE("a caller of another network takes the place of the busiest network's oldest") {
    Handshakes handshakes(3);
    handshakes.add({1}, "quiet", start);
    handshakes.add({2}, "busy", start);
    handshakes.add({3}, "busy", start);
    CHECK(handshakes.add({4}, "new", start) == ConnectionId{2});
    CHECK(handshakes.size() == 3);
}

TEST_CASE("a caller of the busiest network waits until its oldest had a second") {
    Handshakes handshakes(2);
    handshakes.add({1}, "busy", start);
    handshakes.add({2}, "busy", start);
    CHECK(handshakes.add({3}, "busy", start + 999ms) == ConnectionId{3});
    CHECK(handshakes.add({4}, "busy", start + 1s) == ConnectionId{1});
    CHECK(handshakes.size() == 2);
}
