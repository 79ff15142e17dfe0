// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/sample.hpp"

#include <vector>

namespace ddprun::agent::health {

/// Samples a process through /proc and by reading its memory, without stopping it. Never throws; if
/// the process has ended or must not be examined, the sample has only what could be read.
///
/// Reads a bounded number of bytes, usually in a millisecond or two. But it may block on a process
/// in exec, or on links to a file system that hangs, so call it on a thread that may hang.
Sample take_sample(int pid);

/// Samples several processes, in the given order: faster, since the kernel's connection table is
/// read once for all of them.
std::vector<Sample> take_samples(const std::vector<int>& pids);

}  // namespace ddprun::agent::health
