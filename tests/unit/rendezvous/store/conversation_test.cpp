// SPDX-License-Identifier: Apache-2.0
// The recorded conversations through decoder, store and encoder, without a socket: whole, in one
// piece, byte by byte, and cut in two at every byte.
#include "tests/support/conversation.hpp"

#include "rendezvous/store/store.hpp"
#include "rendezvous/wire/decoder.hpp"
#include "rendezvous/wire/encoder.hpp"

#include <doctest/doctest.h>

using namespace ddprun;

namespace {

/// One client of a store of its own, as server/store_connection.cpp would serve it.
class Dialogue {
public:
    void receive(std::string_view bytes) {
        if (is_closed) return;
        decoder_.append(bytes);
        for (;;) {
            store::Store::Received received{{1}, {}};
            const auto has_request = decoder_.next(received.request);
            if (!has_request) is_closed = true;
            if (!has_request || !*has_request) return;
            std::vector<store::Store::Effect> effects;
            store_.handle(std::move(received), Instant{}, effects);
            for (const auto& effect : effects) {
                if (const auto* reply = std::get_if<store::Store::Reply>(&effect))
                    wire::encode(reply->reply, answered);
                else
                    is_closed = true;
            }
        }
    }

    std::string answered;
    bool is_closed = false;

private:
    wire::Decoder decoder_;
    store::Store store_;
};

std::vector<test::Conversation> conversations() {
    return test::read_conversations(DDPRUN_SOURCE_DIR "/tests/interop/conversations");
}

}  // namespace

TEST_CASE("each recorded request is answered as recorded") {
    REQUIRE(conversations().size() > 10);
    for (const auto& conversation : conversations()) {
        CAPTURE(conversation.name);
        Dialogue dialogue;
        for (const auto& step : conversation.steps) {
            CAPTURE(step.name);
            CHECK_FALSE(dialogue.is_closed);
            dialogue.answered.clear();
            dialogue.receive(step.sent);
            if (step.is_in_any_order)
                CHECK(test::sorted(dialogue.answered) == test::sorted(step.answered));
            else
                CHECK(test::to_hex(dialogue.answered) == test::to_hex(step.answered));
        }
        CHECK(dialogue.is_closed == conversation.is_closed_by_server);
    }
}

TEST_CASE("the answers do not depend on how the requests are cut") {
    for (const auto& conversation : conversations()) {
        CAPTURE(conversation.name);
        const auto sent = conversation.all_sent();

        Dialogue at_once;
        at_once.receive(sent);
        const auto expected = test::to_hex(at_once.answered);
        CHECK(test::are_answers(conversation, at_once.answered));

        Dialogue by_byte;
        for (const char byte : sent)
            by_byte.receive({&byte, 1});
        CHECK(test::to_hex(by_byte.answered) == expected);

        for (std::size_t cut = 1; cut < sent.size(); ++cut) {
            Dialogue in_two;
            in_two.receive(std::string_view{sent}.substr(0, cut));
            in_two.receive(std::string_view{sent}.substr(cut));
            if (test::to_hex(in_two.answered) != expected) FAIL_CHECK("cut at byte " << cut);
        }
    }
}
