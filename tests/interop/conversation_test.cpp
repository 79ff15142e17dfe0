// SPDX-License-Identifier: Apache-2.0
// The recorded conversations over real sockets.
#include "tests/interop/replay.hpp"
#include "tests/support/store_thread.hpp"

#include <doctest/doctest.h>

using namespace ddprun::test;
using ddprun::wire::Accepted;

namespace {

/// In one send, and byte by byte.
void replay_in_pieces(const Conversation& conversation, Accepted accepted) {
    CAPTURE(conversation.name);
    const auto sent = conversation.all_sent();
    for (const std::size_t piece : {sent.size(), std::size_t{1}}) {
        StoreThread store({}, accepted);
        RawClient client(store.port());
        for (std::size_t i = 0; i < sent.size(); i += piece)
            client.try_to_say(std::string_view{sent}.substr(i, piece));
        const auto size = conversation.all_answered().size();
        CHECK(are_answers(conversation, client.hear(size)));
        if (conversation.is_closed_by_server) CHECK(client.hears_the_end());
    }
}

}  // namespace

TEST_CASE("our server gives the recorded answers") {
    for (const auto& conversation : recorded_conversations()) {
        StoreThread store;
        replay(conversation, store.port());
    }
}

TEST_CASE("our server gives them when everything comes in one send, and byte by byte") {
    for (const auto& conversation : recorded_conversations())
        replay_in_pieces(conversation, Accepted::current);
}

TEST_CASE("our server gives PyTorch 2.1 the answers of its own server where it is accepted") {
    const auto recorded = conversations_of_2_1();
    REQUIRE_FALSE(recorded.empty());
    for (const auto& conversation : recorded) {
        StoreThread store({}, Accepted::legacy_too);
        replay(conversation, store.port());
        replay_in_pieces(conversation, Accepted::legacy_too);
        StoreThread refusing;
        RawClient client(refusing.port());
        client.try_to_say(conversation.all_sent());
        CHECK(client.hears_the_end());
    }
}
