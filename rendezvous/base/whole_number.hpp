// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace ddprun {

/// Parses the whole text as a number, without a plus sign or blanks. None when the text is no
/// number, or the number does not fit into the type.
template <class Number>
std::optional<Number> whole_number(std::string_view text, int base = 10) {
    Number number{};
    const auto* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number, base);
    if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
    return number;
}

}  // namespace ddprun
