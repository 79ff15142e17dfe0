// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The whole text as a number, as Python's int() and float() would read plain ones: blanks around
/// it and a leading plus are allowed, anything left over is not.
std::optional<int> parse_int(std::string_view text);

/// A length of time: seconds, or a number with ms, s, m, h or d behind it; decimals allowed, up to
/// ten years. Negative ones are not numbers.
std::optional<Duration> parse_duration(std::string_view text);

/// For "accepted is ...".
inline constexpr std::string_view duration_forms = "seconds, or a number with ms, s, m, h or d";

/// "30", "0.5": what parse_duration reads.
std::string describe_seconds(Duration length);

}  // namespace ddprun::launcher
