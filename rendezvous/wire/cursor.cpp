// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/cursor.hpp"

#include <bit>
#include <cstring>

namespace ddprun::wire {
namespace {

/// The wire is little-endian, whatever this machine is.
template <class Unsigned>
Unsigned from_little_endian(const char* bytes) {
    Unsigned value = 0;
    if constexpr (std::endian::native == std::endian::little) {
        std::memcpy(&value, bytes, sizeof value);
    } else {
        for (std::size_t i = 0; i < sizeof(Unsigned); ++i)
            value |= static_cast<Unsigned>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return value;
}

}  // namespace

const char* Cursor::take(std::size_t size) {
    if (!is_complete()) return nullptr;
    if (bytes_.size() - position_ < size) {
        needed_ = position_ + size;
        return nullptr;
    }
    const auto* found = bytes_.data() + position_;
    position_ += size;
    return found;
}

std::uint8_t Cursor::u8() {
    const auto* found = take(1);
    return found != nullptr ? static_cast<std::uint8_t>(*found) : std::uint8_t{0};
}

std::uint32_t Cursor::u32() {
    const auto* found = take(sizeof(std::uint32_t));
    return found != nullptr ? from_little_endian<std::uint32_t>(found) : 0;
}

std::uint64_t Cursor::u64() {
    const auto* found = take(sizeof(std::uint64_t));
    return found != nullptr ? from_little_endian<std::uint64_t>(found) : 0;
}

std::string Cursor::string(std::uint64_t limit, Error too_long) {
    const auto size = u64();
    if (!is_complete()) return {};
    if (size > limit) {
        fail(too_long);
        return {};
    }
    const auto* found = take(static_cast<std::size_t>(size));
    return found != nullptr ? std::string(found, static_cast<std::size_t>(size)) : std::string{};
}

void Cursor::fail(Error error) {
    if (!error_) error_ = error;
}

}  // namespace ddprun::wire
