// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// 128 random bits that identify something uniquely: one life of a node, an incarnation of a job.
/// Written as 32 lower-case hexadecimal digits.
class Nonce {
public:
    Nonce() = default;
    explicit Nonce(std::array<std::uint8_t, 16> bytes) : bytes_(bytes) {}

    static std::optional<Nonce> parse(std::string_view hex);
    std::string to_string() const;
    /// The first eight digits, which are enough for a log line or a file name.
    std::string to_short_string() const { return to_string().substr(0, 8); }

    auto operator<=>(const Nonce&) const = default;

private:
    std::array<std::uint8_t, 16> bytes_{};
};

/// One accepted connection of one server, numbered in order of arrival; numbers are not reused
/// while the server runs.
struct ConnectionId {
    std::uint64_t value = 0;
    auto operator<=>(const ConnectionId&) const = default;
};

}  // namespace ddprun
