// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/printable.hpp"

#include <algorithm>

namespace ddprun {
namespace unprintable {
namespace {

/// U+0080 to U+009F, each an escape sequence in one character; U+061C.
bool is_unprintable_pair(unsigned first, unsigned second) {
    return (first == 0xC2 && second >= 0x80 && second < 0xA0) || (first == 0xD8 && second == 0x9C);
}

/// U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069.
bool is_unprintable_triple(unsigned first, unsigned second, unsigned third) {
    if (first != 0xE2) return false;
    if (second == 0x80) return third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE);
    return second == 0x81 && third >= 0xA6 && third <= 0xA9;
}

}  // namespace
}  // namespace unprintable

std::size_t unprintable_bytes(std::string_view text) {
    using namespace unprintable;
    const auto byte = [&](std::size_t at) {
        return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
    };
    if (text.empty()) return 0;
    const auto first = byte(0);
    if ((first < 0x20 && first != '\t' && first != '\n') || first == 0x7F) return 1;
    if (first < 0x80) return 0;
    if (is_unprintable_pair(first, byte(1))) return 2;
    return is_unprintable_triple(first, byte(1), byte(2)) ? 3 : 0;
}

std::string printable(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const auto size = unprintable_bytes(text);
        result += size > 0 ? '?' : text.front();
        text.remove_prefix(size > 0 ? size : 1);
    }
    return result;
}

std::string printable_line(std::string_view text) {
    auto line = printable(text);
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
    return line;
}

}  // namespace ddprun
