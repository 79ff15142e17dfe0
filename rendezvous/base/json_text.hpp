// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Turns arbitrary bytes into text that every JSON parser accepts.
namespace ddprun {

/// Appends `value` as a JSON string, with its quotes: escaped, with U+FFFD for bytes that are not
/// UTF-8. The result is printable (printable.hpp).
void append_json_string(std::string& out, std::string_view value);

/// The length of `text` without an incomplete character at its end, so that the text can be cut
/// there. Bytes that are not UTF-8 count as complete.
std::size_t whole_character_bytes(std::string_view text);

}  // namespace ddprun
