// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::groups {

/// A secret that a peer must present to connect; it is published in the group's store.
using Token = std::array<unsigned char, 16>;

/// Compares in constant time.
bool is_same(const Token& one, const Token& other);

/// The version of what ranks publish and send each other. Ranks of different versions do not
/// connect.
inline constexpr int wire_version = 1;

/// Where a rank listens, and its token, as it publishes them.
struct PeerAddress {
    std::string host;  ///< numeric
    std::uint16_t port = 0;
    Token token{};
    /// Identifies the network in which a loopback address is valid; one word.
    std::string network;

    bool operator==(const PeerAddress&) const = default;
};

/// "1 192.0.2.1 40000 000102... NETWORK", with the version first, and back. Parsing returns none
/// unless the text is an address of this version.
std::string written(const PeerAddress& address);
std::optional<PeerAddress> peer_address_from(const std::string& text);

/// Why a rank in `network` cannot connect to the address, to follow "listens at"; none when it may.
std::optional<std::string> why_unreachable(const PeerAddress& address, const std::string& network);

}  // namespace ddprun::groups
