// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/json_writer.hpp"

#include "rendezvous/base/json_text.hpp"
#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace ddprun::control {
namespace {

constexpr std::size_t header_bytes = 4;

}  // namespace

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
