// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr std::string_view hex_digits = "0123456789abcdef";

inline std::string in_hex(std::span<const std::uint8_t> bytes) {
    std::string text;
    text.reserve(2 * bytes.size());
    for (const auto byte : bytes) {
        text += hex_digits[byte >> 4U];
        text += hex_digits[byte & 0xFU];
    }
    return text;
}

/// Reads `size` bytes in the form that `in_hex` writes; none when `text` has another form.
template <std::size_t size>
std::optional<std::array<std::uint8_t, size>> from_hex(std::string_view text) {
    std::array<std::uint8_t, size> bytes{};
    if (text.size() != 2 * size) return std::nullopt;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto digit = hex_digits.find(text[i]);
        if (digit == std::string_view::npos) return std::nullopt;
        bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] * 16U + digit);
    }
    return bytes;
}

}  // namespace ddprun
