// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/codec.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/command_fields.hpp"
#include "rendezvous/control/error.hpp"
#include "rendezvous/control/fields.hpp"
#include "rendezvous/control/job_command_fields.hpp"
#include "rendezvous/control/json_fields.hpp"
#include "rendezvous/control/text.hpp"

#include <utility>

namespace ddprun::control {
namespace codec {
namespace {

constexpr std::size_t header_bytes = 4;
/// An empty buffer with at most this capacity is kept, a larger one is freed.
constexpr std::size_t worth_keeping_bytes = 1024;

template <class Message>
std::string frame_of(const Message& message) {
    std::string frame(header_bytes, '\0');
    append(frame, message);
    const auto size = frame.size() - header_bytes;
    for (std::size_t i = 0; i < header_bytes; ++i)
        frame[i] = static_cast<char>((size >> (8 * (header_bytes - 1 - i))) & 0xFFU);
    return frame;
}

}  // namespace
}  // namespace codec

std::string encode(const AgentMessage& message) {
    return std::visit([](const auto& value) { return codec::frame_of(value); }, message);
}

std::string encode(const ServerMessage& message) {
    return std::visit([](const auto& value) { return codec::frame_of(value); }, message);
}

std::string encode(const Command& command) {
    return std::visit([](const auto& value) { return codec::frame_of(value); }, command);
}

std::string encode(const CommandReply& reply) {
    return std::visit([](const auto& value) { return codec::frame_of(value); }, reply);
}

template <class Message>
Result<std::optional<Message>> FrameDecoder<Message>::next() {
    using codec::header_bytes;
    const auto rest = std::string_view{buffer_}.substr(consumed_);
    if (rest.size() < header_bytes) return std::optional<Message>{};
    std::size_t size = 0;
    for (const char byte : rest.substr(0, header_bytes))
        size = size << 8U | static_cast<unsigned char>(byte);
    if (size > limits::max_control_frame_bytes)
        return Failure{Error::frame_too_long, std::to_string(size) + " bytes"};
    if (rest.size() < header_bytes + size) return std::optional<Message>{};

    // After an error the frame is not consumed: the next call returns the same error, never the
    // next frame.
    auto message = codec::message_of<Message>(rest.substr(header_bytes, size), "control frame");
    if (!message) return message.error();
    consumed_ += header_bytes + size;
    if (consumed_ == buffer_.size() || consumed_ >= limits::max_control_frame_bytes) {
        buffer_.erase(0, consumed_);
        consumed_ = 0;
        if (buffer_.empty() && buffer_.capacity() > codec::worth_keeping_bytes)
            buffer_.shrink_to_fit();
    }
    return std::optional<Message>{std::move(*message)};
}

template class FrameDecoder<AgentMessage>;
template class FrameDecoder<ServerMessage>;
template class FrameDecoder<Command>;
template class FrameDecoder<CommandReply>;

}  // namespace ddprun::control
