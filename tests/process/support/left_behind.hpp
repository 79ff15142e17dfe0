// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace ddprun::test {

/// Names the living descendants of this test program, right now; empty when there is none. Orphans
/// that have ended are reaped on the way.
std::string left_behind();

/// Waits until there is none. False when the deadline passed.
bool no_descendants_left(std::chrono::seconds deadline = std::chrono::seconds{30});

/// Waits until this process has ended: it is gone, or a zombie that is not reaped yet.
bool is_gone(int pid, std::chrono::seconds deadline = std::chrono::seconds{30});

/// Whether a signal was sent to this process that it has not taken yet.
bool has_pending_signal(int pid, int signal);

}  // namespace ddprun::test
