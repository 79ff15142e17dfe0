// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/control/command.hpp"
#include "rendezvous/control/message.hpp"

#include <optional>
#include <string>
#include <string_view>

/// Encodes control messages as frames: a u32 big-endian length and one JSON object (FORMAT.md),
/// whose fields are in fields.hpp. nlohmann/json stays inside codec.cpp (json_fields.hpp) and
/// escaped.cpp. Pure: no sockets, safe on any thread.
namespace ddprun::control {

/// The first bytes from the agent; the server answers with a Hello frame.
inline constexpr std::string_view preamble = "DDPRUN/1\n";

/// Encodes one whole frame. Never throws: bytes that are not UTF-8 are replaced, and free text is
/// cut to `limits::max_free_text_bytes` after escaping.
std::string encode(const AgentMessage& message);
std::string encode(const ServerMessage& message);
std::string encode(const Command& command);
std::string encode(const CommandReply& reply);

/// Takes bytes in arbitrary pieces and returns whole messages.
///
/// `next` has three results: a message, nothing yet, or an error after which the connection must
/// be closed (too long, no JSON, nested too deeply, unknown type, a field missing or out of range).
template <class Message>
class FrameDecoder {
public:
    void append(std::string_view bytes) { buffer_ += bytes; }
    Result<std::optional<Message>> next();
    /// The memory that an incomplete message occupies.
    std::size_t held_bytes() const { return buffer_.capacity(); }

private:
    std::string buffer_;
    std::size_t consumed_ = 0;
};

using AgentMessageDecoder = FrameDecoder<AgentMessage>;    ///< the server's side
using ServerMessageDecoder = FrameDecoder<ServerMessage>;  ///< the agent's side
using CommandDecoder = FrameDecoder<Command>;              ///< the agent's side of ddprunctl
using CommandReplyDecoder = FrameDecoder<CommandReply>;    ///< ddprunctl's side

}  // namespace ddprun::control
