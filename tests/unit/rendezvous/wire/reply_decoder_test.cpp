// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/reply_decoder.hpp"

#include "rendezvous/wire/encoder.hpp"
#include "rendezvous/wire/error.hpp"
#include "rendezvous/wire/text.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/samples.hpp"

#include <doctest/doctest.h>

using namespace ddprun;
using namespace ddprun::wire;
using ddprun::test::from_hex;

namespace {

std::string encoded_reply(const Reply& reply) {
    std::string bytes;
    encode(reply, bytes);
    return bytes;
}

error_code reply_error(const Request& request, const std::string& bytes) {
    ReplyDecoder decoder;
    decoder.append(bytes);
    const auto reply = decoder.next(*awaited_reply(request));
    return reply ? error_code{} : reply.error().code;
}

}  // namespace

TEST_CASE("a reply comes out of its own bytes, wherever they are cut") {
    for (const auto& [asked, reply] : test::sample_replies()) {
        const auto& request = asked;  // clang 14 lets no lambda name a structured binding
        CAPTURE(describe(request));
        const auto bytes = encoded_reply(reply);
        const auto awaited = awaited_reply(request);
        REQUIRE(awaited);
        for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
            ReplyDecoder decoder;
            decoder.append(bytes.substr(0, cut));
            const auto early = decoder.next(*awaited);
            REQUIRE(early.has_value());
            CHECK_FALSE(early->has_value());

            decoder.append(bytes.substr(cut));
            const auto complete = decoder.next(*awaited);
            REQUIRE(complete.has_value());
            REQUIRE(complete->has_value());
            CHECK(**complete == reply);
            CHECK(decoder.unread().empty());
        }
    }
}

TEST_CASE("requests without a reply await none") {
    CHECK_FALSE(awaited_reply(Set{"/k", "v"}));
    CHECK_FALSE(awaited_reply(Append{"/k", "v"}));
    CHECK_FALSE(awaited_reply(MultiSet{}));
    CHECK_FALSE(awaited_reply(QueuePush{"/q", "v"}));
    CHECK_FALSE(awaited_reply(Validate{}));
    CHECK(awaited_reply(MultiGet{{"/a", "/b"}}) == Awaited{Query::multi_get, 2});
}

TEST_CASE("a peer that is no store is an error") {
    CHECK(reply_error(Get{"/k"}, "HTTP/1.1 400 Bad Request") == Error::reply_too_long);
    CHECK(reply_error(ListKeys{}, "SSH-2.0-OpenSSH_9.2") == Error::reply_too_long);
    CHECK(reply_error(Check{{"/k"}}, from_hex("02")) == Error::unexpected_reply);
    CHECK(reply_error(Wait{{"/k"}}, from_hex("02")) == Error::unexpected_reply);
    CHECK(reply_error(CancelWait{}, from_hex("00")) == Error::unexpected_reply);
    CHECK(reply_error(QueuePop{"/q"}, from_hex("ffffffffffffffff")) == Error::unexpected_reply);
}
