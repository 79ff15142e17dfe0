// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/ids.hpp"

namespace ddprun {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

}  // namespace

std::optional<Nonce> Nonce::parse(std::string_view hex) {
    std::array<std::uint8_t, 16> bytes{};
    if (hex.size() != 2 * bytes.size()) return std::nullopt;
    for (std::size_t i = 0; i < hex.size(); ++i) {
        const auto digit = hex_digits.find(hex[i]);
        if (digit == std::string_view::npos) return std::nullopt;
        bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] * 16U + digit);
    }
    return Nonce{bytes};
}

std::string Nonce::to_string() const {
    std::string text;
    text.reserve(2 * bytes_.size());
    for (const auto byte : bytes_) {
        text += hex_digits[byte >> 4];
        text += hex_digits[byte & 15];
    }
    return text;
}

}  // namespace ddprun
