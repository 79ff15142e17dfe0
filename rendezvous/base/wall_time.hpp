// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

/// The time of day, for people and log files. No decision depends on it, except how far away a
/// moment is that a scheduler gives as a time of day.
namespace ddprun {

/// "12:03:07.113", local.
std::string time_of_day();

/// "2026-11-21T12:03:07.113Z".
std::string utc_time();

/// "Sat, 21 Nov 2026 12:03:07 GMT", as HTTP writes it.
std::string http_date();

/// Milliseconds since 1970.
std::int64_t unix_milliseconds();

}  // namespace ddprun
