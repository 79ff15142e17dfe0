// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/peer_address.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace ddprun::groups;

TEST_CASE("a rank's published address is read as it was written") {
    PeerAddress address{"fd00::1", 65535, {}, "boot/net:[1]"};
    for (std::size_t i = 0; i < address.token.size(); ++i)
        address.token[i] = static_cast<unsigned char>(17 * i);

    CHECK(written(address) == "1 fd00::1 65535 00112233445566778899aabbccddeeff boot/net:[1]");
    CHECK(peer_address_from(written(address)) == address);
    auto other = address.token;
    CHECK(is_same(address.token, other));
    other.back() = 0;
    CHECK_FALSE(is_same(address.token, other));
}

TEST_CASE("what is no address of a rank is refused") {
    const std::string token = "00112233445566778899aabbccddeeff";
    for (const std::string& text :
         {std::string{},
          std::string{"1 192.0.2.1"},
          "1 192.0.2.1 " + token + " net",
          "1 192.0.2.1 65536 " + token + " net",
          "1 192.0.2.1 -1 " + token + " net",
          "1 192.0.2.1 80x " + token + " net",
          "1 192.0.2.1 80 " + token + "0 net",
          "1 192.0.2.1 80 " + token.substr(1) + "g net",
          "1 192.0.2.1 80 " + token,
          "1 192.0.2.1 80 " + token + " net more"}) {
        CAPTURE(text);
        CHECK_FALSE(peer_address_from(text));
    }
    CHECK(peer_address_from("1 192.0.2.1 80 " + token + " net"));
}

TEST_CASE("an address that another version has published is refused") {
    const std::string rest = " 192.0.2.1 80 00112233445566778899aabbccddeeff net";
    for (const auto* version : {"0", "2", "01", "1x"})
        CHECK_FALSE(peer_address_from(version + rest));
    // The format of releases without a version.
    CHECK_FALSE(peer_address_from(rest.substr(1)));
    CHECK_FALSE(peer_address_from(std::string(28, '\2')));
}

TEST_CASE("however a published address is changed, it is read as itself or not at all") {
    std::mt19937 random(7);
    const PeerAddress address{"192.0.2.1", 40000, {1, 2, 3}, "net"};
    const auto text = written(address);
    for (int i = 0; i < 20'000; ++i) {
        auto changed = text;
        changed[random() % changed.size()] = static_cast<char>(random());
        if (i % 2 == 0) changed.resize(random() % changed.size());
        if (const auto read = peer_address_from(changed))
            CHECK(peer_address_from(written(*read)) == read);
    }
}

TEST_CASE("an address that means nothing on the machine of a peer is refused with words") {
    const auto why = [](const std::string& host, const std::string& network) {
        return why_unreachable({host, 1, {}, "mine"}, network).value_or("");
    };
    CHECK(why("192.0.2.1", "other") == "");
    CHECK(why("127.0.0.1", "mine") == "");
    CHECK(
        why("127.0.1.1", "other") ==
        "127.0.1.1, which only its own machine reaches: set DDPRUN_NODE_ADDR there to an address "
        "that its peers reach");
    CHECK(why("::1", "other") != "");
    CHECK(
        why("fe80::1%eth0", "mine") ==
        "fe80::1%eth0, an address of one link only: set DDPRUN_NODE_ADDR there to an address that "
        "its peers reach");
}
