// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>

namespace ddprun {

/// The types for lengths of time and moments, everywhere in the project.
///
/// Moments are on the boot clock (CLOCK_BOOTTIME), which also runs while a machine is suspended: a
/// suspension counts as time that passed. Pure code receives moments as arguments; only the few
/// files named in tests/rules read the clock (clock.hpp).
using Duration = std::chrono::nanoseconds;

/// The clock type of `Instant`: a tag without `now()`, so that pure code cannot read the time.
struct BootTime {
    using duration = Duration;
    using rep = Duration::rep;
    using period = Duration::period;
    using time_point = std::chrono::time_point<BootTime, Duration>;
    static constexpr bool is_steady = true;
};

using Instant = BootTime::time_point;

/// Converts to seconds for display: 2.5 for 2500 ms.
inline double in_seconds(Duration length) {
    return std::chrono::duration<double>(length).count();
}

/// The inverse, rounded to the nanosecond. Requires: |seconds| below 292 years.
inline Duration from_seconds(double seconds) {
    return Duration{std::llround(seconds * 1e9)};
}

/// This moment in nanoseconds of the kernel's boot clock, for pages shared between processes.
inline std::int64_t nanoseconds_since_boot(Instant moment) {
    return moment.time_since_epoch().count();
}

inline Instant from_nanoseconds_since_boot(std::int64_t nanoseconds) {
    return Instant{Duration{nanoseconds}};
}

}  // namespace ddprun
