// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/wire/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::wire {

/// Reads fields one after another from the front of some bytes.
///
/// Once a field is missing or wrong, every further read gives zero or nothing, so the caller can
/// read a whole message first, and then check whether there was an error, more bytes are needed, or
/// the message is complete.
class Cursor {
public:
    explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

    std::uint8_t u8();
    std::uint32_t u32();
    std::uint64_t u64();
    std::int64_t i64() { return static_cast<std::int64_t>(u64()); }
    /// Reads a length and that many bytes. A length beyond the limit is the error `too_long`,
    /// detected before the bytes arrive.
    std::string string(std::uint64_t limit, Error too_long);

    std::optional<Error> error() const { return error_; }
    bool is_complete() const { return needed_ == 0 && !error_; }
    std::size_t consumed() const { return position_; }
    /// The total number of bytes that the next attempt needs to get further; 0 if the message is
    /// complete.
    std::size_t needed() const { return needed_; }
    void fail(Error error);

private:
    /// The next `size` bytes, or nothing.
    const char* take(std::size_t size);

    std::string_view bytes_;
    std::size_t position_ = 0;
    std::size_t needed_ = 0;
    std::optional<Error> error_;
};

}  // namespace ddprun::wire
