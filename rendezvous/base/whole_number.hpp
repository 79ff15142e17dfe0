// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace ddprun {

/// The number that all of the text is, without a plus sign or blanks; nothing where it is none, or
/// is too big for the type.
template <class Number>
std::optional<Number> whole_number(std::string_view text, int base = 10) {
    Number number{};
    const auto* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number, base);
    if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
    return number;
}

}  // namespace ddprun
