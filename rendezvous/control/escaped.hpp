// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::control {

/// `value` as the inside of a JSON string: escaped, with U+FFFD for bytes that are not UTF-8, and
/// cut between characters so that the result has at most `most_bytes`. Never throws, except when
/// memory runs out.
std::string escaped(std::string_view value, std::size_t most_bytes);

/// Whether it may be a name that all readers must have the same: it is written unchanged.
bool is_name(const std::string& text);

/// True when `escaped` does not shorten `value`.
bool is_escaped_whole(std::string_view value, std::size_t most_bytes);

}  // namespace ddprun::control
