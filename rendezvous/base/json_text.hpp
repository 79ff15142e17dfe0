// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Arbitrary bytes as text that every JSON parser accepts.
namespace ddprun {

/// Appends `value` as a JSON string, with its quotes: escaped, with U+FFFD for bytes that are not
/// UTF-8. The result can be shown as it is (printable.hpp).
void append_json_string(std::string& out, std::string_view value);

/// The length of the bytes without an incomplete character at their end: there a text may be cut
/// without breaking a character. Bytes that are not UTF-8 are not held back.
std::size_t whole_character_bytes(std::string_view text);

}  // namespace ddprun
