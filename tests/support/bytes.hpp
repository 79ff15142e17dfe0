// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>

namespace ddprun::test {

/// "00 ce f7" -> three bytes. Blanks are optional.
inline std::string from_hex(std::string_view text) {
    std::string bytes;
    std::string digits;
    for (const char c : text) {
        if (std::isxdigit(static_cast<unsigned char>(c)) == 0) continue;
        digits += c;
        if (digits.size() < 2) continue;
        bytes += static_cast<char>(std::strtol(digits.c_str(), nullptr, 16));
        digits.clear();
    }
    return bytes;
}

inline std::string to_hex(std::string_view bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        if (!text.empty()) text += ' ';
        text += digits[byte >> 4];
        text += digits[byte & 0xf];
    }
    return text;
}

}  // namespace ddprun::test
