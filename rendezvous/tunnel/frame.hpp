// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The frames by which one encrypted connection carries many connections to one store (FORMAT.md).
/// Pure.
namespace ddprun::tunnel {

/// Streams are numbered from 1 on without gaps; a number is never used twice within a tunnel.
using StreamNumber = std::uint32_t;

/// Sent before the first frame by the end that opens streams.
inline constexpr std::string_view preamble = "ddprun-store/1\n";

/// `u32 stream, u8 kind, u32 length`, big-endian.
inline constexpr std::size_t header_bytes = 9;
inline constexpr std::size_t max_payload_bytes = 64 * 1024;

enum class Kind : std::uint8_t {
    open = 1,    ///< payload: the caller's port on its machine, u16
    data = 2,    ///< payload: 1 to `max_payload_bytes`
    credit = 3,  ///< payload: how many more bytes may be sent, u32, at least 1
    end = 4,     ///< no payload: this end sends no more data
    reset = 5,   ///< no payload: this end sends and accepts no more data
};

struct Frame {
    StreamNumber stream = 0;
    Kind kind = Kind::data;
    /// The payload of `data`, a view of the decoded bytes.
    std::string_view data = {};
    /// The number in `open` and `credit`.
    std::uint32_t number = 0;

    std::size_t encoded_bytes() const;
    bool operator==(const Frame&) const = default;
};

/// Requires: the data is not longer than one frame's.
void encode(const Frame& frame, std::string& out);

/// The first frame of these bytes; none when it is incomplete. A wrong kind or length is detected
/// in the header.
Result<std::optional<Frame>> decode(std::string_view bytes);

}  // namespace ddprun::tunnel
