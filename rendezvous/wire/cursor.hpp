// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/wire/error.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::wire {

/// Reads fields one after another from the front of some bytes.
///
/// Once a field is missing or wrong, every further read gives zero or nothing, so the caller can
/// read a whole message first, and then check whether there was an error, more bytes are needed, or
/// the message is complete. Inline, since decoding a small request is little else.
class Cursor {
public:
    explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

    std::uint8_t u8() { return number<std::uint8_t>(); }
    std::uint32_t u32() { return number<std::uint32_t>(); }
    std::uint64_t u64() { return number<std::uint64_t>(); }
    std::int64_t i64() { return static_cast<std::int64_t>(u64()); }
    /// Reads a length and that many bytes. A length beyond the limit is the error `too_long`,
    /// detected before the bytes arrive.
    std::string string(std::uint64_t limit, Error too_long) {
        std::string text;
        string(text, limit, too_long);
        return text;
    }
    /// The same, into a text that may have room for it already. It keeps its value if the bytes are
    /// missing.
    void string(std::string& into, std::uint64_t limit, Error too_long) {
        const auto size = u64();
        if (!is_complete()) return;
        if (size > limit) return fail(too_long);
        if (const auto* found = take(static_cast<std::size_t>(size)))
            into.assign(found, static_cast<std::size_t>(size));
    }

    std::optional<Error> error() const { return error_; }
    bool is_complete() const { return needed_ == 0 && !error_; }
    std::size_t consumed() const { return position_; }
    /// The total number of bytes that the next attempt needs to get further; 0 if the message is
    /// complete.
    std::size_t needed() const { return needed_; }
    void fail(Error error) {
        if (!error_) error_ = error;
    }

private:
    /// The next `size` bytes, or nothing.
    const char* take(std::size_t size) {
        if (!is_complete()) return nullptr;
        if (bytes_.size() - position_ < size) {
            needed_ = position_ + size;
            return nullptr;
        }
        const auto* found = bytes_.data() + position_;
        position_ += size;
        return found;
    }

    /// The wire is little-endian, whatever this machine is.
    template <class Unsigned>
    Unsigned number() {
        const auto* bytes = take(sizeof(Unsigned));
        if (bytes == nullptr) return 0;
        Unsigned value = 0;
        if constexpr (std::endian::native == std::endian::little) {
            std::memcpy(&value, bytes, sizeof value);
        } else {
            for (std::size_t i = 0; i < sizeof(Unsigned); ++i)
                value = static_cast<Unsigned>(
                    value | static_cast<Unsigned>(static_cast<unsigned char>(bytes[i])) << (8 * i));
        }
        return value;
    }

    std::string_view bytes_;
    std::size_t position_ = 0;
    std::size_t needed_ = 0;
    std::optional<Error> error_;
};

}  // namespace ddprun::wire
