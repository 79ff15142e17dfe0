// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The messages between agents on `peer_port`: one line, one line back, and the connection is over
/// (FORMAT.md here).
namespace ddprun::agent {

/// No line is longer, its line feed included.
inline constexpr std::size_t max_peer_line_bytes = 128;

/// A probe: `node` is alive and in this round.
struct PeerVouch {
    /// The agent it is meant for: a port may belong to another process by now.
    Nonce to;
    Nonce node;
    int round = 0;

    bool operator==(const PeerVouch&) const = default;
};

struct PeerAnswer {
    enum class Kind : std::uint8_t {
        vouched,    ///< is reported to the server when it asks
        disowned,   ///< no further probe is answered, or the round is over
        elsewhere,  ///< the agent is not in that round, or does not hear the server itself
    };
    Kind kind = Kind::elsewhere;
    /// The round of the answering agent; -1: none.
    int round = -1;

    bool operator==(const PeerAnswer&) const = default;
};

/// With the line feed.
std::string encode(const PeerVouch& vouch);
std::string encode(const PeerAnswer& answer);

/// The line in what has been read so far, without its line feed. Empty: it is none, because it is
/// too long or something follows it. Nothing: the rest of it has not come yet.
std::optional<std::string_view> peer_line(std::string_view read);

/// One line without its line feed; nothing if it is anything else.
std::optional<PeerVouch> parse_peer_vouch(std::string_view line);
std::optional<PeerAnswer> parse_peer_answer(std::string_view line);

std::string_view name_of(PeerAnswer::Kind kind);

}  // namespace ddprun::agent
