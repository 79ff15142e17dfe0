// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/peer_address.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::groups;

TEST_CASE("a rank's published address is read as it was written") {
    PeerAddress address{"fd00::1", 65535, {}};
    for (std::size_t i = 0; i < address.token.size(); ++i)
        address.token[i] = static_cast<unsigned char>(17 * i);

    CHECK(written(address) == "fd00::1 65535 00112233445566778899aabbccddeeff");
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
          std::string{"192.0.2.1"},
          "192.0.2.1 " + token,
          "192.0.2.1 65536 " + token,
          "192.0.2.1 -1 " + token,
          "192.0.2.1 80x " + token,
          "192.0.2.1 80 " + token + "0",
          "192.0.2.1 80 " + token.substr(1) + "g",
          "192.0.2.1 80 " + token + " more"}) {
        CAPTURE(text);
        CHECK_FALSE(peer_address_from(text));
    }
}
