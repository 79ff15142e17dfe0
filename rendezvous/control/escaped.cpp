// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/escaped.hpp"

#include "rendezvous/base/limits.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ddprun::control {
namespace {

constexpr std::size_t longest_character = 4;

bool needs_no_escape(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

/// The length of the escape or character at `at`. Requires: `safe` is the inside of a JSON string.
std::size_t unit_bytes(std::string_view safe, std::size_t at) {
    if (safe[at] == '\\') return safe[at + 1] == 'u' ? 6 : 2;
    const auto first = static_cast<unsigned char>(safe[at]);
    if (first < 0x80) return 1;
    if (first < 0xE0) return 2;
    return first < 0xF0 ? 3 : longest_character;
}

}  // namespace

std::string escaped(std::string_view value, std::size_t most_bytes) {
    // Most text needs no escape, and the library's function is slower.
    if (std::all_of(value.begin(), value.end(), needs_no_escape))
        return std::string{value.substr(0, most_bytes)};

    using Json = nlohmann::json;
    // Each byte becomes at least one byte, so bytes after these cannot be in the result.
    const auto near = value.substr(0, most_bytes + longest_character);
    const auto quoted = Json(near).dump(-1, ' ', false, Json::error_handler_t::replace);
    auto safe = quoted.substr(1, quoted.size() - 2);
    if (safe.size() <= most_bytes) return safe;
    std::size_t end = 0;
    while (end + unit_bytes(safe, end) <= most_bytes)
        end += unit_bytes(safe, end);
    safe.resize(end);
    return safe;
}

bool is_escaped_whole(std::string_view value, std::size_t most_bytes) {
    const auto safe = escaped(value, most_bytes);
    return nlohmann::json::parse('"' + safe + '"').get<std::string>() == value;
}

bool is_name(const std::string& text) {
    return !text.empty() && escaped(text, limits::max_name_bytes) == text;
}

}  // namespace ddprun::control
