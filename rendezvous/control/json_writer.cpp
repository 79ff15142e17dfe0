// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/json_writer.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace ddprun::control {
namespace {

constexpr std::size_t header_bytes = 4;
constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_continuation(std::string_view text, std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

// Bytes of the well-formed UTF-8 character at `at`, or 0 (Unicode, table 3-7).
std::size_t character_bytes(std::string_view text, std::size_t at) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) return 1;
    const auto second = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1])
                                             : static_cast<unsigned char>(0);
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

std::string escaped_ascii(char c) {
    switch (c) {
        case '"': return "\\\"";
        case '\\': return "\\\\";
        case '\n': return "\\n";
        case '\r': return "\\r";
        case '\t': return "\\t";
        case '\b': return "\\b";
        case '\f': return "\\f";
        default: break;
    }
    if (static_cast<unsigned char>(c) >= 0x20) return std::string(1, c);
    constexpr std::string_view digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    return std::string{"\\u00"} + digits[byte >> 4U] + digits[byte & 15U];
}

}  // namespace

std::string escaped(std::string_view value, std::size_t most_bytes) {
    std::string result;
    for (std::size_t at = 0; at < value.size();) {
        const auto size = character_bytes(value, at);
        std::string character;
        if (size == 1)
            character = escaped_ascii(value[at]);
        else
            character = size == 0 ? replacement : value.substr(at, size);
        if (result.size() + character.size() > most_bytes) break;
        result += character;
        at += size == 0 ? 1 : size;
    }
    return result;
}

JsonWriter::JsonWriter(std::string_view type)
    : bytes_(header_bytes, '\0'),
      text_left_(limits::max_free_text_bytes) {
    bytes_ += '{';
    name("type", type);
}

void JsonWriter::begin(std::string_view field) {
    const char last = bytes_.back();
    if (last != '{' && last != '[') bytes_ += ',';
    if (field.empty()) return;
    bytes_ += '"';
    bytes_ += field;
    bytes_ += "\":";
}

void JsonWriter::open(std::string_view field, char bracket) {
    begin(field);
    bytes_ += bracket;
}

void JsonWriter::close(char bracket) {
    bytes_ += bracket;
}

void JsonWriter::integer(std::string_view field, std::int64_t value) {
    begin(field);
    bytes_ += std::to_string(value);
}

void JsonWriter::counter(std::string_view field, std::uint64_t value) {
    begin(field);
    bytes_ += std::to_string(value);
}

void JsonWriter::truth(std::string_view field, bool value) {
    begin(field);
    bytes_ += value ? "true" : "false";
}

void JsonWriter::seconds(std::string_view field, Duration value) {
    begin(field);
    std::array<char, 32> digits{};
    // Shortest form that reads back as the same double; a Duration is never infinite or NaN.
    const auto length = in_seconds(std::max(value, Duration::zero()));
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), length);
    bytes_.append(digits.data(), end.ptr);
}

void JsonWriter::name(std::string_view field, std::string_view value) {
    begin(field);
    bytes_ += '"' + escaped(value, limits::max_name_bytes) + '"';
}

void JsonWriter::text(std::string_view field, std::string_view value) {
    begin(field);
    const auto safe = escaped(value, text_left_);
    text_left_ -= safe.size();
    bytes_ += '"' + safe + '"';
}

std::string JsonWriter::frame() && {
    bytes_ += '}';
    const auto size = bytes_.size() - header_bytes;
    for (std::size_t i = 0; i < header_bytes; ++i)
        bytes_[i] = static_cast<char>((size >> (8 * (header_bytes - 1 - i))) & 0xFFU);
    return std::move(bytes_);
}

}  // namespace ddprun::control
