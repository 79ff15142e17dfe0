// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/conversation.hpp"
#include "tests/support/raw_client.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

namespace ddprun::test {

inline std::vector<Conversation> recorded_conversations() {
    return read_conversations(DDPRUN_SOURCE_DIR "/tests/interop/conversations");
}

/// Conversations of a PyTorch 2.1 client, which a server accepts only with an option.
inline std::vector<Conversation> conversations_of_2_1() {
    return read_conversations(DDPRUN_SOURCE_DIR "/tests/interop/conversations/pytorch-2.1");
}

/// Plays one recorded conversation to the server of that port, step by step.
inline void replay(const Conversation& conversation, std::uint16_t port) {
    CAPTURE(conversation.name);
    RawClient client(port);
    for (const auto& step : conversation.steps) {
        CAPTURE(step.name);
        client.say(step.sent);
        const auto answer = client.hear(step.answered.size());
        if (step.is_in_any_order)
            CHECK(to_hex(sorted(answer)) == to_hex(sorted(step.answered)));
        else
            CHECK(to_hex(answer) == to_hex(step.answered));
    }
    if (conversation.is_closed_by_server) CHECK(client.hears_the_end());
}

}  // namespace ddprun::test
