// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/keys.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;

namespace {

std::string in_hex(const std::array<std::uint8_t, 32>& bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const auto byte : bytes) {
        text += digits[byte >> 4U];
        text += digits[byte & 0xFU];
    }
    return text;
}

const tls::Secret secret{std::string(43, 'A')};

}  // namespace

// From another implementation of RFC 5869 (Python's hmac). Other nodes must derive the same keys,
// or they cannot join.
TEST_CASE("the keys of a secret never change") {
    const auto control = tls::control_key(secret);
    CHECK(control.identity == "ddprun-1 control 743d78f5dbfdd666");
    CHECK(
        in_hex(control.bytes) ==
        "65b800d5c158b31f64ab6defe2428ba671334c44a4cfd8596053b63b118fefb1");
    const auto peer = tls::peer_key(secret, Nonce{});
    CHECK(peer.identity == "ddprun-1 peer 2340039a078d8d5c");
    CHECK(in_hex(peer.bytes) == "5ba3176b271765e5eb0e592bd76985a28c073a813bbbc351c19fe234b3975ec5");
    const auto vote = tls::vote_key(secret, Nonce{});
    CHECK(vote.identity == "ddprun-1 vote 8aa1021c742ebff2");
    CHECK(in_hex(vote.bytes) == "6b9b8d1c988971bcd40aa54b43a27e09671a1b8c20a14976c6fe70006392b24e");
    const auto store = tls::store_key(secret, "abc", 3);
    CHECK(store.identity == "ddprun-1 store f97b3cc1b85d8c32");
    CHECK(
        in_hex(store.bytes) == "b41180e8bfd2205743c1adaf7ab803c6e2030df0f7c4a7fb7f3296f71c6e35b8");
    CHECK(
        tls::page_token(secret) ==
        "c3a77e876aeee3b89829349a56efe292673948fcdbdd6deb509b07bcf401f6bf");
}

TEST_CASE("a token equals itself alone") {
    CHECK(tls::are_equal_tokens("abc", "abc"));
    CHECK_FALSE(tls::are_equal_tokens("abc", "abd"));
    CHECK_FALSE(tls::are_equal_tokens("abc", "ab"));
    CHECK_FALSE(tls::are_equal_tokens("", "abc"));
}

TEST_CASE("each secret, purpose and callee has a key of its own") {
    const auto other = tls::control_key(tls::Secret{std::string(43, 'B')});
    CHECK(other.identity != tls::control_key(secret).identity);
    CHECK(other.bytes != tls::control_key(secret).bytes);
    const auto to_one = tls::peer_key(secret, Nonce{{1}});
    CHECK(to_one.bytes != tls::peer_key(secret, Nonce{{2}}).bytes);
    CHECK(to_one.bytes != tls::control_key(secret).bytes);
    const auto to_voter = tls::vote_key(secret, Nonce{{1}});
    CHECK(to_voter.identity != to_one.identity);
    CHECK(to_voter.bytes != to_one.bytes);
    CHECK(to_voter.bytes != tls::vote_key(secret, Nonce{{2}}).bytes);
    CHECK(to_voter.identity != tls::vote_key(secret, Nonce{{2}}).identity);
    const auto store = tls::store_key(secret, "abc", 3);
    CHECK(store.bytes != tls::store_key(secret, "abc", 4).bytes);
    CHECK(store.bytes != tls::store_key(secret, "abd", 3).bytes);
    CHECK(store.identity == tls::store_key(secret, "abd", 4).identity);
}
