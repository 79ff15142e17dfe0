// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The whole text as a number, parsed like Python's int() and float(): blanks around it and a
/// leading plus are allowed, other remaining characters are not.
std::optional<int> parse_int(std::string_view text);

/// A length of time: seconds, or a number followed by ms, s, m, h or d. Decimals are allowed, up to
/// ten years; negative lengths are not.
std::optional<Duration> parse_duration(std::string_view text);

/// The text for "accepted is ...".
inline constexpr std::string_view duration_forms = "seconds, or a number with ms, s, m, h or d";

/// "30", "0.5": in a form that parse_duration reads.
std::string describe_seconds(Duration length);

}  // namespace ddprun::launcher
