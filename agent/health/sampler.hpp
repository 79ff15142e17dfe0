// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/sample.hpp"

#include <vector>

namespace ddprun::agent::health {

/// Looks at a process through /proc and by reading its memory, without stopping it. Never throws;
/// of a process that is gone, or that this one may not see, the sample has what could be read.
///
/// Reads a bounded number of bytes, in a millisecond or two; but a process in exec holds its
/// descriptors, and a file system that hangs its links: for a thread that may hang.
Sample take_sample(int pid);

/// Of several at once, in their order: faster, since the kernel's table of connections is read once
/// for all of them.
std::vector<Sample> take_samples(const std::vector<int>& pids);

}  // namespace ddprun::agent::health
