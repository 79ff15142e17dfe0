// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/neighbours.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;
namespace ctl = ddprun::control;

namespace {

using Kind = PeerAnswer::Kind;

Nonce nonce(int number) {
    auto digits = std::to_string(number);
    return *Nonce::parse(std::string(32 - digits.size(), '0') + digits);
}

const Nonce self = nonce(1);
const Nonce b = nonce(2);
const Nonce c = nonce(3);

Instant at(Duration since) {
    return Instant{} + since;
}

/// In round 7 with neighbours b and c.
Neighbours some() {
    Neighbours neighbours(self);
    neighbours.enter(7, {{b, "10.0.0.2", 20'002}, {c, "10.0.0.3", 20'003}});
    return neighbours;
}

PeerProbe to_us(const Nonce& from, int round = 7) {
    return {self, from, round};
}

ctl::Ask about(const Nonce& node) {
    return {node, 7, false};
}

ctl::Ask confirm(const Nonce& node) {
    return {node, 7, true};
}

ctl::NeighbourHeard never_heard(const Nonce& node, bool has_confirmed) {
    return {node, 7, std::nullopt, has_confirmed};
}

}  // namespace

TEST_CASE("every neighbour is asked by its name, where it can be reached") {
    auto neighbours = some();
    const auto asks = neighbours.ask_all(at(0s));
    REQUIRE(asks.size() == 2);
    CHECK(asks[0] == Neighbours::Ask{1, {"10.0.0.2", 20'002}, {b, self, 7}});
    CHECK(asks[1] == Neighbours::Ask{2, {"10.0.0.3", 20'003}, {c, self, 7}});
    CHECK(neighbours.ask_all(at(1s))[0].id == 3);
}

TEST_CASE("a neighbour is reached when it answers, whatever it says") {
    auto neighbours = some();
    CHECK(neighbours.is_reach_known());
    neighbours.ask_all(at(0s));
    CHECK_FALSE(neighbours.is_reach_known());
    neighbours.on_answer(1, PeerAnswer{Kind::elsewhere, 6});
    CHECK_FALSE(neighbours.is_reach_known());
    neighbours.on_answer(2, std::nullopt);
    CHECK(neighbours.is_reach_known());
    CHECK(neighbours.reached_count() == 1);

    // Later questions concern another member.
    neighbours.ask_all(at(1s));
    CHECK(neighbours.is_reach_known());
    neighbours.on_answer(3, PeerAnswer{Kind::accepted, 7});
    CHECK(neighbours.reached_count() == 1);
    neighbours.on_answer(4, PeerAnswer{Kind::refused, 7});
    CHECK(neighbours.reached_count() == 2);
}

TEST_CASE("a probe counts from when it was sent, and the latest one counts") {
    auto neighbours = some();
    neighbours.ask_all(at(1s));
    neighbours.ask_all(at(2s));
    CHECK_FALSE(neighbours.accepted_at());
    neighbours.on_answer(4, PeerAnswer{Kind::accepted, 7});
    CHECK(neighbours.accepted_at() == at(2s));
    neighbours.on_answer(1, PeerAnswer{Kind::accepted, 7});
    CHECK(neighbours.accepted_at() == at(2s));
    // Unexpected answers count for nothing, nor do answers that accept no probe.
    neighbours.on_answer(4, PeerAnswer{Kind::accepted, 7});
    neighbours.on_answer(99, PeerAnswer{Kind::accepted, 7});
    neighbours.ask_all(at(3s));
    neighbours.on_answer(5, PeerAnswer{Kind::elsewhere, 7});
    neighbours.on_answer(6, PeerAnswer{Kind::refused, 7});
    CHECK(neighbours.accepted_at() == at(2s));
    CHECK_FALSE(neighbours.is_round_over());
}

TEST_CASE("a neighbour in a later round says that ours is over") {
    auto neighbours = some();
    neighbours.ask_all(at(0s));
    neighbours.on_answer(1, PeerAnswer{Kind::elsewhere, 8});
    CHECK_FALSE(neighbours.is_round_over());
    neighbours.on_answer(2, PeerAnswer{Kind::refused, 8});
    CHECK(neighbours.is_round_over());
}

TEST_CASE("what was asked in an earlier round is not answered in this one") {
    auto neighbours = some();
    neighbours.ask_all(at(0s));
    neighbours.enter(8, {{b, "10.0.0.2", 20'002}});
    CHECK(neighbours.is_reach_known());
    CHECK(neighbours.ask_all(at(1s))[0].id == 3);
    neighbours.on_answer(1, PeerAnswer{Kind::accepted, 7});
    neighbours.on_answer(2, PeerAnswer{Kind::refused, 9});
    CHECK(neighbours.reached_count() == 0);
    CHECK_FALSE(neighbours.accepted_at());
    CHECK_FALSE(neighbours.is_round_over());
}

TEST_CASE("probes of a node that is in our round and no confirmed suspect are accepted") {
    auto neighbours = some();
    CHECK(neighbours.answer(to_us(b), true, at(0s)) == PeerAnswer{Kind::accepted, 7});
    CHECK(neighbours.answer(to_us(b, 8), true, at(0s)) == PeerAnswer{Kind::elsewhere, 7});
    CHECK(neighbours.answer(to_us(b, 6), true, at(0s)) == PeerAnswer{Kind::refused, 7});
}

TEST_CASE("a probe for another agent is not answered") {
    auto neighbours = some();
    CHECK_FALSE(neighbours.answer({b, c, 7}, true, at(0s)));
    neighbours.become(c);
    CHECK_FALSE(neighbours.answer(to_us(b), true, at(0s)));
}

TEST_CASE("a node that is in no round yet can be reached, and accepts no probe") {
    Neighbours neighbours(self);
    CHECK(neighbours.answer(to_us(b, 0), true, at(0s)) == PeerAnswer{Kind::elsewhere, -1});
    neighbours = some();
    neighbours.become(self);
    CHECK(neighbours.answer(to_us(b), true, at(0s)) == PeerAnswer{Kind::elsewhere, -1});
    CHECK_FALSE(neighbours.on_asked_about(about(b), at(0s)));
}

TEST_CASE("a node that does not hear the server itself accepts no probe") {
    auto neighbours = some();
    CHECK(neighbours.answer(to_us(b), false, at(0s)) == PeerAnswer{Kind::elsewhere, 7});
    // The server is not notified of it either.
    CHECK(neighbours.on_asked_about(about(b), at(0s)) == never_heard(b, false));
}

TEST_CASE("the age of the last probe is reported to the server, and counts for two seconds") {
    auto neighbours = some();
    CHECK(neighbours.answer(to_us(b), true, at(10s)));
    CHECK(neighbours.on_asked_about(confirm(b), at(12s)) == ctl::NeighbourHeard{b, 7, 2s, false});
    CHECK(neighbours.answer(to_us(b), true, at(12s)) == PeerAnswer{Kind::accepted, 7});
    // Then it is confirmed as suspect: the server knows the last probe, and no later one is
    // accepted.
    CHECK(
        neighbours.on_asked_about(confirm(b), at(14'001ms)) ==
        ctl::NeighbourHeard{b, 7, 2'001ms, true});
    CHECK(neighbours.answer(to_us(b), true, at(14'001ms)) == PeerAnswer{Kind::refused, 7});
    CHECK(neighbours.on_asked_about(confirm(b), at(15s)) == ctl::NeighbourHeard{b, 7, 3s, true});
    CHECK(neighbours.on_asked_about(about(b), at(16s)) == ctl::NeighbourHeard{b, 7, 4s, true});
    CHECK(neighbours.answer(to_us(c), true, at(16s)) == PeerAnswer{Kind::accepted, 7});
}

TEST_CASE("a question that does not want a promise gets none") {
    auto neighbours = some();
    CHECK(neighbours.on_asked_about(about(b), at(0s)) == never_heard(b, false));
    CHECK(neighbours.answer(to_us(b), true, at(0s)) == PeerAnswer{Kind::accepted, 7});
}

TEST_CASE("a question about another round is not answered, and promises nothing") {
    auto neighbours = some();
    CHECK_FALSE(neighbours.on_asked_about({b, 6, true}, at(0s)));
    CHECK_FALSE(neighbours.on_asked_about({b, 8, true}, at(0s)));
    CHECK(neighbours.answer(to_us(b), true, at(0s)) == PeerAnswer{Kind::accepted, 7});
}

TEST_CASE("a promise holds for its round") {
    auto neighbours = some();
    CHECK(neighbours.on_asked_about(confirm(b), at(0s)) == never_heard(b, true));
    CHECK(neighbours.answer(to_us(b), true, at(0s)) == PeerAnswer{Kind::refused, 7});
    neighbours.enter(8, {});
    CHECK(neighbours.answer(to_us(b, 8), true, at(0s)) == PeerAnswer{Kind::accepted, 8});
}

TEST_CASE("a flood of unknown probes makes no node a suspect too early") {
    auto neighbours = some();
    CHECK(neighbours.answer(to_us(b), true, at(0s)));
    const auto count = static_cast<int>(limits::max_probing_nodes);
    for (int i = 0; i < 2 * count; ++i)
        CHECK(neighbours.answer(to_us(nonce(1000 + i)), true, at(1s)));
    // It was forgotten, so it may have been heard as late as the last one that was forgotten.
    CHECK(neighbours.on_asked_about(confirm(b), at(2s)) == ctl::NeighbourHeard{b, 7, 1s, false});
    CHECK(neighbours.on_asked_about(confirm(b), at(4s)) == ctl::NeighbourHeard{b, 7, 3s, true});
}
