// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// The one rule for foreign text on a screen, in a log and on a page: the text must not move a
/// cursor, begin an escape sequence, or change the direction of the text around it.
namespace ddprun {

/// The length of an unprintable sequence at the beginning of `text`: a control character (except
/// tab and newline), one of U+0080 to U+009F, a mark of direction, a line or paragraph separator. 0
/// when the text begins with something else, or is empty.
std::size_t unprintable_bytes(std::string_view text);

/// The text with `?` for each unprintable sequence.
std::string printable(std::string_view text);

/// As `printable`, with a blank for each tab and newline: for a cell of a table or a field of a
/// line.
std::string printable_line(std::string_view text);

}  // namespace ddprun
