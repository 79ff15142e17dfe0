// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// Decimal digits only: no sign, no blanks, no other characters. Nothing for any other text.
std::optional<int> digits(std::string_view text);

/// Throws UsageError "NAME=value: expected ..." with no more of the value than fits a line.
[[noreturn]] void refuse_value(
    const std::string& name, std::string_view value, const std::string& what_is_accepted);

/// The number, or UsageError naming `name` and the range.
int number_between(std::string_view value, const std::string& name, int least, int most);

}  // namespace ddprun
