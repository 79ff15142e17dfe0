// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// The one rule for text of others on a screen, in a log and on a page: none of it can move a
/// cursor, begin an escape sequence, or change the direction of what is written around it.
namespace ddprun {

/// How many bytes at the beginning of `text` must not be shown as they are: a control character
/// (tab and newline are none), one of U+0080 to U+009F, a mark of direction, a line or paragraph
/// separator. 0: it begins with something else, or is empty.
std::size_t unprintable_bytes(std::string_view text);

/// With `?` for each of them.
std::string printable(std::string_view text);

/// The same on one line, a blank for each tab and newline: a cell of a table, a field of a line.
std::string printable_line(std::string_view text);

}  // namespace ddprun
