// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/xid_line.hpp"

#include <vector>

namespace ddprun::agent {

/// One worker of this node, as the search for a GPU needs it.
struct GpuUser {
    int local_rank = 0;
    int pid = 0;
    bool has_ended = false;
};

/// The local ranks that use the GPU of this error: their processes, descendants included, have its
/// device open, or the driver names the worker's process, which comes first then. A worker that has
/// ended is found by that name only. Empty: it is no GPU of theirs, or the driver's files are not
/// shown here. May block; from any thread.
std::vector<int> users_of_gpu(const health::XidLine& line, const std::vector<GpuUser>& workers);

}  // namespace ddprun::agent
