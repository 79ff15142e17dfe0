// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/handshakes.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace std::chrono_literals;
using server::Handshakes;

namespace {

constexpr Instant start{};

/// An address of a network.
Handshakes::Caller at(const std::string& network, const std::string& address = "1") {
    return {network, network + address};
}

}  // namespace

TEST_CASE("up to the limit no handshake is closed") {
    Handshakes handshakes(2);
    CHECK_FALSE(handshakes.add({1}, at("a"), start).has_value());
    CHECK_FALSE(handshakes.add({2}, at("b"), start).has_value());
    handshakes.remove({1});
    handshakes.remove({1});
    CHECK_FALSE(handshakes.add({3}, at("c"), start).has_value());
    CHECK(handshakes.size() == 2);
}

TEST_CASE("a caller of another network takes the place of the busiest network's oldest") {
    Handshakes handshakes(3);
    handshakes.add({1}, at("quiet"), start);
    handshakes.add({2}, at("busy"), start);
    handshakes.add({3}, at("busy"), start);
    CHECK(handshakes.add({4}, at("new"), start) == ConnectionId{2});
    CHECK(handshakes.size() == 3);
}

TEST_CASE("a caller of the busiest address waits until its oldest had a second") {
    Handshakes handshakes(2);
    handshakes.add({1}, at("busy"), start);
    handshakes.add({2}, at("busy"), start);
    CHECK(handshakes.add({3}, at("busy"), start + 999ms) == ConnectionId{3});
    CHECK(handshakes.size() == 2);
    CHECK(handshakes.add({4}, at("busy"), start + 1s) == ConnectionId{1});
    CHECK(handshakes.size() == 2);
}

TEST_CASE("in one network the address that has most makes room for the others") {
    Handshakes handshakes(4);
    handshakes.add({1}, at("all", "quiet"), start);
    handshakes.add({2}, at("all", "busy"), start);
    handshakes.add({3}, at("all", "busy"), start);
    handshakes.add({4}, at("all", "busy"), start);
    // At once, and however often the other one comes.
    CHECK(handshakes.add({5}, at("all", "new"), start) == ConnectionId{2});
    CHECK(handshakes.add({6}, at("all", "busy"), start) == ConnectionId{6});
    CHECK(handshakes.size() == 4);
}

TEST_CASE("where every address has one, the one that is here longest makes room for a new one") {
    Handshakes handshakes(2);
    handshakes.add({1}, at("all", "z"), start);
    handshakes.add({2}, at("all", "a"), start);
    CHECK(handshakes.add({3}, at("all", "m"), start) == ConnectionId{1});
    CHECK(handshakes.add({4}, at("new"), start) == ConnectionId{2});
    CHECK(handshakes.size() == 2);
}
