// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/json_text.hpp"

#include "rendezvous/base/printable.hpp"

#include <algorithm>

namespace ddprun {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::size_t longest_character = 4;

unsigned char byte_at(std::string_view text, std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

bool is_continuation(std::string_view text, std::size_t at) {
    return (byte_at(text, at) & 0xC0U) == 0x80U;
}

/// The length of the UTF-8 character at `at`; 0 when it is not well-formed (Unicode, table 3-7).
std::size_t character_bytes(std::string_view text, std::size_t at) {
    const auto first = byte_at(text, at);
    const auto second = byte_at(text, at + 1);
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return is_continuation(text, at + 1) ? 2 : 0;
    if (first >= 0xE0 && first <= 0xEF) {
        const unsigned lowest = first == 0xE0 ? 0xA0 : 0x80;
        const unsigned highest = first == 0xED ? 0x9F : 0xBF;  // no surrogates
        return second >= lowest && second <= highest && is_continuation(text, at + 2) ? 3 : 0;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        const unsigned lowest = first == 0xF0 ? 0x90 : 0x80;
        const unsigned highest = first == 0xF4 ? 0x8F : 0xBF;
        return second >= lowest && second <= highest && is_continuation(text, at + 2) &&
                       is_continuation(text, at + 3)
                   ? 4
                   : 0;
    }
    return 0;
}

/// The length that this first byte announces for its character.
std::size_t announced_bytes(unsigned char first) {
    if (first >= 0xF0 && first <= 0xF4) return 4;
    if (first >= 0xE0 && first <= 0xEF) return 3;
    return first >= 0xC2 && first <= 0xDF ? 2 : 1;
}

bool needs_no_escape(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte < 0x7F && c != '"' && c != '\\';
}

constexpr std::string_view json_hex_digits = "0123456789abcdef";

/// Requires: one well-formed character of two or three bytes.
std::string escaped_wide(std::string_view character) {
    unsigned code =
        static_cast<unsigned char>(character[0]) & (character.size() == 2 ? 0x1FU : 0x0FU);
    for (const char c : character.substr(1))
        code = code << 6U | (static_cast<unsigned char>(c) & 0x3FU);
    std::string escape = "\\u";
    for (int shift = 12; shift >= 0; shift -= 4)
        escape += json_hex_digits[code >> static_cast<unsigned>(shift) & 15U];
    return escape;
}

std::string escaped_ascii(char c) {
    switch (c) {
        case '"': return "\\\"";
        case '\\': return "\\\\";
        case '\n': return "\\n";
        case '\r': return "\\r";
        case '\t': return "\\t";
        case '\b': return "\\b";
        case '\f': return "\\f";
        case '\x7f': return "\\u007f";
        default: break;
    }
    if (static_cast<unsigned char>(c) >= 0x20) return std::string(1, c);
    const auto byte = static_cast<unsigned char>(c);
    return std::string{"\\u00"} + json_hex_digits[byte >> 4U] + json_hex_digits[byte & 15U];
}

}  // namespace

void append_json_string(std::string& out, std::string_view value) {
    out += '"';
    for (std::size_t at = 0; at < value.size();) {
        // Most text needs no escape: such a stretch is appended in one piece.
        const auto* begin = value.data() + at;
        const auto* end = value.data() + value.size();
        const auto* plain_end = std::find_if_not(begin, end, needs_no_escape);
        out.append(begin, plain_end);
        at += static_cast<std::size_t>(plain_end - begin);
        if (at == value.size()) break;

        const auto size = character_bytes(value, at);
        const bool is_unprintable = size > 1 && unprintable_bytes(value.substr(at)) == size;
        if (is_unprintable)
            out += escaped_wide(value.substr(at, size));
        else if (size == 1)
            out += escaped_ascii(value[at]);
        else
            out += size == 0 ? replacement : value.substr(at, size);
        at += size == 0 ? 1 : size;
    }
    out += '"';
}

std::size_t whole_character_bytes(std::string_view text) {
    const auto farthest = std::min(text.size(), longest_character - 1);
    for (std::size_t back = 1; back <= farthest; ++back) {
        const auto at = text.size() - back;
        if (is_continuation(text, at)) continue;
        return announced_bytes(byte_at(text, at)) > back ? at : text.size();
    }
    return text.size();
}

}  // namespace ddprun
