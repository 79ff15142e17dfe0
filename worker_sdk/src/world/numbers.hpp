// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/error.hpp"

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// Reads decimal digits only: no sign, no blanks, no other characters. None for any other text.
inline std::optional<int> digits(std::string_view text) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
    return number;
}

/// Throws UsageError "NAME=value: expected ..." with no more of the value than fits a line.
[[noreturn]] inline void refuse_value(
    const std::string& name, std::string_view value, const std::string& what_is_accepted) {
    throw UsageError(
        name + "=" + std::string{value.substr(0, 64)} + ": expected " + what_is_accepted);
}

/// Reads the number, or throws UsageError naming `name` and the range.
inline int number_between(std::string_view value, const std::string& name, int least, int most) {
    const auto number = digits(value);
    if (!number || *number < least || *number > most)
        refuse_value(
            name, value, "a number from " + std::to_string(least) + " to " + std::to_string(most));
    return *number;
}

}  // namespace ddprun
