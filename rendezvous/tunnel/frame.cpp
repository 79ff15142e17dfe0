// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tunnel/frame.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/tunnel/error.hpp"

#include <algorithm>

namespace ddprun::tunnel {
namespace {

void put(std::string& out, std::uint32_t number, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        out += static_cast<char>((number >> shift) & 0xFFU);
}

std::uint32_t get(std::string_view bytes) {
    std::uint32_t number = 0;
    for (const char byte : bytes)
        number = number << 8 | static_cast<std::uint8_t>(byte);
    return number;
}

/// Empty: payloads of this kind have no fixed length.
std::optional<std::size_t> fixed_length(Kind kind) {
    switch (kind) {
        case Kind::open: return 2;
        case Kind::credit: return 4;
        case Kind::end:
        case Kind::reset: return 0;
        case Kind::data: break;
    }
    return std::nullopt;
}

bool is_kind(std::uint8_t number) {
    return number >= static_cast<std::uint8_t>(Kind::open) &&
           number <= static_cast<std::uint8_t>(Kind::reset);
}

bool has_length(Kind kind, std::size_t length) {
    if (const auto fixed = fixed_length(kind)) return length == *fixed;
    return length >= 1 && length <= max_payload_bytes;
}

}  // namespace

std::size_t Frame::encoded_bytes() const {
    return header_bytes + fixed_length(kind).value_or(data.size());
}

void encode(const Frame& frame, std::string& out) {
    const auto length = fixed_length(frame.kind).value_or(frame.data.size());
    require(has_length(frame.kind, length), "a frame has a length of its kind");
    // Reserves first, so that a frame is written whole or not at all: the other end would read half
    // a frame as another frame.
    if (out.capacity() - out.size() < header_bytes + length)
        out.reserve(std::max(2 * out.capacity(), out.size() + header_bytes + length));
    put(out, frame.stream, 4);
    put(out, static_cast<std::uint32_t>(frame.kind), 1);
    put(out, static_cast<std::uint32_t>(length), 4);
    if (frame.kind == Kind::data)
        out += frame.data;
    else
        put(out, frame.number, static_cast<int>(length));
}

Result<std::optional<Frame>> decode(std::string_view bytes) {
    if (bytes.size() < header_bytes) return std::optional<Frame>{};
    const auto kind = static_cast<std::uint8_t>(bytes[4]);
    const std::size_t length = get(bytes.substr(5, 4));
    if (!is_kind(kind)) return Failure{make_error_code(Error::unknown_kind), {}};
    Frame frame{get(bytes.substr(0, 4)), static_cast<Kind>(kind)};
    if (!has_length(frame.kind, length)) return Failure{make_error_code(Error::wrong_length), {}};
    if (bytes.size() - header_bytes < length) return std::optional<Frame>{};
    const auto payload = bytes.substr(header_bytes, length);
    if (frame.kind == Kind::data)
        frame.data = payload;
    else
        frame.number = get(payload);
    if (frame.kind == Kind::credit && frame.number == 0)
        return Failure{make_error_code(Error::wrong_length), {}};
    return std::optional{frame};
}

}  // namespace ddprun::tunnel
