// SPDX-License-Identifier: Apache-2.0
// The recorded conversations over real sockets.
#include "tests/interop/replay.hpp"
#include "tests/support/store_thread.hpp"

#include <doctest/doctest.h>

using namespace ddprun::test;

TEST_CASE("our server gives the recorded answers") {
    for (const auto& conversation : recorded_conversations()) {
        StoreThread store;
        replay(conversation, store.port());
    }
}

TEST_CASE("our server gives them when everything comes in one send, and byte by byte") {
    for (const auto& conversation : recorded_conversations()) {
        CAPTURE(conversation.name);
        const auto sent = conversation.all_sent();
        for (const std::size_t piece : {sent.size(), std::size_t{1}}) {
            StoreThread store;
            RawClient client(store.port());
            for (std::size_t i = 0; i < sent.size(); i += piece)
                client.try_to_say(std::string_view{sent}.substr(i, piece));
            const auto size = conversation.all_answered().size();
            CHECK(are_answers(conversation, client.hear(size)));
            if (conversation.is_closed_by_server) CHECK(client.hears_the_end());
        }
    }
}
