// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The page that this process shares with its agent (agent/channel/FORMAT.md). The first call tries
/// once to connect. When that fails, and in a forked child, the words are written into private
/// memory. Any thread.
namespace ddprun::channel {

/// Nanoseconds of CLOCK_BOOTTIME.
std::uint64_t boot_time_ns();

void report(std::uint64_t step, std::uint64_t now_ns);
/// Returns the previous phase.
std::uint64_t set_phase(std::uint64_t phase);

/// Whether this rank saves now. For a step below the previous one, or above 2^54 - 3, the result is
/// false. While the ranks agree on a step it waits, at most until the time for the save is over.
bool should_save(std::uint64_t step);
void saved(std::uint64_t step);

}  // namespace ddprun::channel
