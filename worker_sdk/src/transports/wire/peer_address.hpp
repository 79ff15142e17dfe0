// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::groups {

/// What a peer has to know to be connected: it has read the group's store.
using Token = std::array<unsigned char, 16>;

/// Whether they are equal, in the same time wherever they differ.
bool is_same(const Token& one, const Token& other);

/// Of what ranks publish and send each other. Ranks of different versions are not connected.
inline constexpr int wire_version = 1;

/// Where a rank listens, and its token, as it publishes them.
struct PeerAddress {
    std::string host;  ///< numeric
    std::uint16_t port = 0;
    Token token{};
    /// Within which loopback addresses mean the same; one word.
    std::string network;

    bool operator==(const PeerAddress&) const = default;
};

/// "1 192.0.2.1 40000 000102... NETWORK" with the version, and back; nothing when the text is not
/// one of this version.
std::string written(const PeerAddress& address);
std::optional<PeerAddress> peer_address_from(const std::string& text);

/// Why a rank in `network` cannot connect to it, as what follows "listens at"; nothing: it may.
std::optional<std::string> why_unreachable(const PeerAddress& address, const std::string& network);

}  // namespace ddprun::groups
