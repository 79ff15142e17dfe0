// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/base64.hpp"

namespace ddprun {
namespace {

constexpr std::string_view base64_digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const auto byte = [&](std::size_t at) -> unsigned {
            return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U;
        };
        const unsigned group = byte(i) << 16U | byte(i + 1) << 8U | byte(i + 2);
        for (const unsigned shift : {18U, 12U, 6U, 0U})
            text += base64_digits[group >> shift & 63U];
        if (i + 1 >= bytes.size()) text[text.size() - 2] = '=';
        if (i + 2 >= bytes.size()) text.back() = '=';
    }
    return text;
}

std::optional<std::string> from_base64(std::string_view text) {
    std::string bytes;
    unsigned group = 0;
    unsigned bits = 0;
    while (!text.empty() && text.back() == '=')
        text.remove_suffix(1);
    for (const char letter : text) {
        const auto value = base64_digits.find(letter);
        if (value == std::string_view::npos) return std::nullopt;
        group = (group << 6U | static_cast<unsigned>(value)) & 0xffffU;
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        bytes += static_cast<char>(group >> bits & 0xffU);
    }
    return bytes;
}

}  // namespace ddprun
