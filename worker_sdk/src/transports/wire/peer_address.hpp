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

/// Where a rank listens, and its token, as it publishes them.
struct PeerAddress {
    std::string host;  ///< numeric
    std::uint16_t port = 0;
    Token token{};

    bool operator==(const PeerAddress&) const = default;
};

/// "192.0.2.1 40000 000102...", and back; nothing when the text is not one.
std::string written(const PeerAddress& address);
std::optional<PeerAddress> peer_address_from(const std::string& text);

}  // namespace ddprun::groups
