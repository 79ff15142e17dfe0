// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tunnel/tunnel.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/tunnel/error.hpp"
#include "tests/support/failing_allocation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

using namespace ddprun;
using namespace ddprun::tunnel;

namespace {

constexpr auto window = limits::tunnel_window_bytes;

std::string text_of(const Tunnel::Effect& effect) {
    return std::visit(
        Overloaded{
            [](const Tunnel::Opened& e) {
                return "opened " + std::to_string(e.stream) + " by " +
                       std::to_string(e.caller_port);
            },
            [](const Tunnel::Arrived& e) {
                return "arrived " + std::to_string(e.stream) + " " + std::string{e.data};
            },
            [](const Tunnel::Ended& e) { return "ended " + std::to_string(e.stream); },
            [](const Tunnel::Broken& e) { return "broken " + std::to_string(e.stream); },
            [](const Tunnel::MaySend& e) { return "may send " + std::to_string(e.stream); },
        },
        effect);
}

using Words = std::vector<std::string>;

/// Carries all output of one end to the other.
Words carry(Tunnel& from, Tunnel& to) {
    std::vector<Tunnel::Effect> effects;
    const auto bytes = from.take_output();
    const auto taken = to.receive(bytes, effects);
    REQUIRE(taken.has_value());
    CHECK(*taken == bytes.size());
    Words words;
    for (const auto& effect : effects)
        words.push_back(text_of(effect));
    return words;
}

struct Pair {
    Tunnel node{Tunnel::Side::opens};
    Tunnel store{Tunnel::Side::accepts};

    Words to_store() { return carry(node, store); }
    Words to_node() { return carry(store, node); }
    StreamNumber opened() {
        const auto stream = node.open(40'000);
        REQUIRE(stream.has_value());
        to_store();
        return *stream;
    }
};

std::string frames(const std::vector<Frame>& list) {
    std::string bytes;
    for (const auto& frame : list)
        encode(frame, bytes);
    return bytes;
}

}  // namespace

TEST_CASE("what a stream carries arrives in order, and its end after it") {
    Pair pair;
    CHECK(pair.node.open(40'001) == 1);
    pair.node.send(1, "set");
    pair.node.send(1, "more");
    pair.node.end(1);
    CHECK(
        pair.to_store() ==
        Words{"opened 1 by 40001", "arrived 1 set", "arrived 1 more", "ended 1"});

    pair.store.send(1, "reply");
    pair.store.end(1);
    pair.store.took(1, 7);
    CHECK(pair.to_node() == Words{"arrived 1 reply", "ended 1"});
    CHECK(pair.store.stream_count() == 0);
    CHECK(pair.node.stream_count() == 1);
    pair.node.took(1, 5);
    CHECK(pair.node.stream_count() == 0);
    CHECK_FALSE(pair.node.has_output());
}

TEST_CASE("a megabyte and a close at once: the end is sent when the last byte was") {
    Pair pair;
    const auto stream = pair.opened();
    const std::string all(1024 * 1024, 's');
    std::string_view rest = all;
    std::string arrived;
    Words last;
    for (int turns = 0; last != Words{"ended 1"}; ++turns) {
        REQUIRE(turns < 100);
        const auto size = std::min(rest.size(), pair.node.may_send(stream));
        pair.node.send(stream, rest.substr(0, size));
        rest.remove_prefix(size);
        if (rest.empty()) pair.node.end(stream);
        last.clear();
        for (const auto& word : pair.to_store())
            if (word.starts_with("arrived 1 ")) {
                arrived += word.substr(10);
                pair.store.took(stream, word.size() - 10);
            } else {
                last.push_back(word);
            }
        CHECK(pair.store.held_bytes() == 0);
        carry(pair.store, pair.node);
    }
    CHECK(arrived == all);
}

TEST_CASE("a stream whose socket takes nothing stops at its window, and no other stream does") {
    Pair pair;
    const auto slow = pair.opened();
    const auto other = pair.opened();
    pair.node.send(slow, std::string(window, 'x'));
    CHECK(pair.node.may_send(slow) == 0);
    CHECK(pair.to_store().size() == window / max_payload_bytes);
    CHECK(pair.store.held_bytes() == window);
    CHECK(pair.node.may_send(other) == window);

    pair.store.took(slow, window / 2 - 1);
    CHECK(pair.to_node().empty());
    pair.store.took(slow, 1);
    CHECK(pair.to_node() == Words{"may send 1"});
    CHECK(pair.node.may_send(slow) == window / 2);
}

TEST_CASE("nothing is read for a tunnel that has much to write") {
    Tunnel node{Tunnel::Side::opens, {16, 1024, 100}};
    CHECK(node.open(1) == 1);
    CHECK(node.may_send(1) == window);
    node.send(1, std::string(100, 'x'));
    CHECK(node.may_send(1) == 0);
    node.take_output();
    CHECK(node.may_send(1) == window - 100);
}

TEST_CASE("with more held than may be the stream whose data comes is reset, and the tunnel lives") {
    Tunnel node{Tunnel::Side::opens};
    Tunnel store{Tunnel::Side::accepts, {16, 100, 1024}};
    node.open(1);
    node.open(2);
    node.send(1, std::string(100, 'x'));
    node.send(2, "y");
    auto words = carry(node, store);
    CHECK(words.back() == "broken 2");
    CHECK(store.held_bytes() == 100);
    CHECK(carry(store, node) == Words{"broken 2"});
    CHECK(node.may_send(2) == 0);
    store.took(1, 100);
    node.send(1, "z");
    CHECK(carry(node, store) == Words{"arrived 1 z"});
}

TEST_CASE(
    "tunnels that share a bound hold no more together, and what one held is free at its end") {
    const auto all = std::make_shared<std::size_t>(0);
    const TunnelBounds shared{16, 100, 1024, all};
    Tunnel first{Tunnel::Side::opens};
    Tunnel second{Tunnel::Side::opens};
    Tunnel end_of_second{Tunnel::Side::accepts, shared};
    {
        Tunnel end_of_first{Tunnel::Side::accepts, shared};
        first.open(1);
        second.open(1);
        first.send(1, std::string(100, 'x'));
        carry(first, end_of_first);
        CHECK(*all == 100);
        second.send(1, "y");
        CHECK(carry(second, end_of_second) == Words{"opened 1 by 1", "broken 1"});
    }
    CHECK(*all == 0);
    second.open(2);
    second.send(2, "z");
    CHECK(carry(second, end_of_second) == Words{"opened 2 by 2", "arrived 2 z"});
    CHECK(*all == 1);
}

TEST_CASE("more streams than may be are refused one by one") {
    Tunnel node{Tunnel::Side::opens, {3, 1024, 1024}};
    Tunnel store{Tunnel::Side::accepts, {2, 1024, 1024}};
    CHECK(node.open(1) == 1);
    CHECK(node.open(2) == 2);
    CHECK(node.open(3) == 3);
    CHECK_FALSE(node.open(4).has_value());
    CHECK(carry(node, store) == Words{"opened 1 by 1", "opened 2 by 2"});
    CHECK(carry(store, node) == Words{"broken 3"});
    CHECK(store.stream_count() == 2);
    // Its slot is free, but its number is not used again.
    CHECK(node.open(4) == 4);
}

TEST_CASE("a reset drops what waits, and frames that were on their way are none of an error") {
    Pair pair;
    const auto stream = pair.opened();
    pair.node.send(stream, "set");
    pair.store.reset(stream);
    CHECK(pair.to_store().empty());
    CHECK(pair.to_node() == Words{"broken 1"});
    CHECK(pair.store.stream_count() == 0);
    CHECK(pair.node.stream_count() == 0);
    pair.node.end(stream);
    pair.node.reset(stream);
    pair.node.took(stream, 3);
    CHECK_FALSE(pair.node.has_output());
}

TEST_CASE("what had arrived before a reset can still be taken") {
    Pair pair;
    const auto stream = pair.opened();
    pair.node.send(stream, "set");
    pair.node.reset(stream);
    CHECK(pair.to_store() == Words{"arrived 1 set", "broken 1"});
    CHECK(pair.store.held_bytes() == 3);
    pair.store.took(stream, 3);
    CHECK(pair.store.stream_count() == 0);
    CHECK_FALSE(pair.store.has_output());
}

TEST_CASE("credit for the last data of a stream that is over here is no error") {
    Pair pair;
    const auto stream = pair.opened();
    pair.store.end(stream);
    pair.to_node();
    pair.node.send(stream, std::string(window, 'x'));
    pair.to_store();
    pair.store.took(stream, window);
    pair.node.end(stream);
    CHECK(pair.node.stream_count() == 0);
    CHECK(pair.to_node().empty());
    CHECK(pair.to_store() == Words{"ended 1"});
    CHECK(pair.store.stream_count() == 0);
}

TEST_CASE("an end that does what the tunnel does not allow ends it") {
    struct Case {
        const char* name;
        std::vector<Frame> frames;
        Error error;
    };
    const std::string big(max_payload_bytes, 'x');
    const std::vector<Case> cases{
        {"data of a stream never opened", {{1, Kind::data, "x"}}, Error::wrong_stream},
        {"the end of one never opened", {{9, Kind::end}}, Error::wrong_stream},
        {"stream 0", {{0, Kind::open, {}, 1}}, Error::wrong_stream},
        {"a number left out", {{2, Kind::open, {}, 1}}, Error::wrong_stream},
        {"opened twice", {{1, Kind::open, {}, 1}, {1, Kind::open, {}, 1}}, Error::wrong_stream},
        {"opened again after its end",
         {{1, Kind::open, {}, 1}, {1, Kind::reset}, {1, Kind::open, {}, 1}},
         Error::wrong_stream},
        {"data after the end",
         {{1, Kind::open, {}, 1}, {1, Kind::end}, {1, Kind::data, "x"}},
         Error::after_end},
        {"two ends", {{1, Kind::open, {}, 1}, {1, Kind::end}, {1, Kind::end}}, Error::after_end},
        {"credit for nothing",
         {{1, Kind::open, {}, 1}, {1, Kind::credit, {}, 1}},
         Error::too_much_credit},
        {"more than the window",
         {{1, Kind::open, {}, 1},
          {1, Kind::data, big},
          {1, Kind::data, big},
          {1, Kind::data, big},
          {1, Kind::data, big},
          {1, Kind::data, "x"}},
         Error::too_much_data}};
    for (const auto& each : cases) {
        CAPTURE(each.name);
        Tunnel store{Tunnel::Side::accepts};
        std::vector<Tunnel::Effect> effects;
        const auto taken = store.receive(std::string{preamble} + frames(each.frames), effects);
        REQUIRE_FALSE(taken.has_value());
        CHECK(taken.error().code == each.error);
    }
    Tunnel node{Tunnel::Side::opens};
    std::vector<Tunnel::Effect> effects;
    CHECK(
        node.receive(frames({{1, Kind::open, {}, 1}}), effects).error().code ==
        Error::wrong_direction);
}

TEST_CASE("the first bytes name the protocol") {
    Tunnel store{Tunnel::Side::accepts};
    std::vector<Tunnel::Effect> effects;
    CHECK(store.receive("ddprun-st", effects).value() == 0);
    CHECK(store.receive("ddprun-store/1\n", effects).value() == preamble.size());
    for (const auto* other : {"x", "ddprun-store/2\n", "DDPRUN/1\n"}) {
        Tunnel end{Tunnel::Side::accepts};
        CHECK(end.receive(other, effects).error().code == Error::other_protocol);
    }
    CHECK(effects.empty());
}

TEST_CASE("bytes that come in any pieces mean the same") {
    Tunnel node{Tunnel::Side::opens};
    node.open(7);
    node.send(1, "first");
    node.open(8);
    node.send(2, "second");
    node.end(1);
    const auto bytes = node.take_output();
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
        Tunnel store{Tunnel::Side::accepts};
        std::string held;
        Words words;
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            held += bytes.substr(at, piece);
            std::vector<Tunnel::Effect> effects;
            const auto taken = store.receive(held, effects);
            REQUIRE(taken.has_value());
            for (const auto& effect : effects)
                words.push_back(text_of(effect));
            held.erase(0, *taken);
        }
        CHECK(held.empty());
        CHECK(
            words == Words{
                         "opened 1 by 7",
                         "arrived 1 first",
                         "opened 2 by 8",
                         "arrived 2 second",
                         "ended 1"});
    }
}

TEST_CASE("without memory a frame is whole or not there") {
    for (std::size_t allowed = 0; allowed < 6; ++allowed) {
        CAPTURE(allowed);
        Tunnel node{Tunnel::Side::opens};
        Tunnel store{Tunnel::Side::accepts};
        REQUIRE(node.open(1) == 1);
        const std::string data(100'000, 'x');
        bool has_failed = false;
        {
            const test::FailingAllocation failing(allowed);
            try {
                node.send(1, data);
            } catch (const std::bad_alloc&) {
                has_failed = true;
            }
        }
        // The reaction to such a stream.
        if (has_failed) node.reset(1);
        const auto words = carry(node, store);
        CHECK(words.front() == "opened 1 by 1");
        CHECK((words.back() == "broken 1") == has_failed);
    }
}

TEST_CASE("without memory for its beginning a stream has no number") {
    bool has_failed = false;
    for (std::size_t allowed = 0; allowed < 3; ++allowed) {
        CAPTURE(allowed);
        Pair pair;
        bool has_opened = true;
        {
            const test::FailingAllocation failing(allowed);
            try {
                pair.node.open(1);
            } catch (const std::bad_alloc&) {
                has_opened = false;
            }
        }
        has_failed = has_failed || !has_opened;
        CHECK(pair.node.stream_count() == (has_opened ? 1U : 0U));
        CHECK(pair.node.open(2) == (has_opened ? 2U : 1U));
        CHECK(pair.to_store().back() == (has_opened ? "opened 2 by 2" : "opened 1 by 2"));
    }
    CHECK(has_failed);
}

TEST_CASE("without memory for its end a stream is one that has not ended") {
    bool has_failed = false;
    for (std::size_t bytes = 1; bytes < 64; ++bytes) {
        CAPTURE(bytes);
        Pair pair;
        const auto stream = pair.opened();
        pair.store.end(stream);
        pair.to_node();
        pair.node.send(stream, std::string(bytes, 'x'));
        bool has_ended = true;
        {
            const test::FailingAllocation failing(0);
            try {
                pair.node.end(stream);
            } catch (const std::bad_alloc&) {
                has_ended = false;
            }
        }
        has_failed = has_failed || !has_ended;
        // The reaction to such a stream, after which the other end does not wait for it.
        if (!has_ended) pair.node.reset(stream);
        CHECK(pair.to_store().back() == (has_ended ? "ended 1" : "broken 1"));
    }
    CHECK(has_failed);
}
