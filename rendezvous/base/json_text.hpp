// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Bytes of any kind as text that every JSON parser accepts.
namespace ddprun {

/// Appends `value` as a JSON string, with its quotes: escaped, with U+FFFD for what is not UTF-8;
/// printable as it is (printable.hpp).
void append_json_string(std::string& out, std::string_view value);

/// How many of the bytes there are before a character that begins at the end and is not complete:
/// where a text may be cut without breaking a character. What is not UTF-8 anyway is not held back.
std::size_t whole_character_bytes(std::string_view text);

}  // namespace ddprun
