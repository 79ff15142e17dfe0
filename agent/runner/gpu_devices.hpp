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
/// device open. When the driver names a process, only the worker with that process is returned, or
/// none if the process belongs to no worker and the error stops only the named process. A worker
/// that has ended is found by that name only. Empty: it is no GPU of theirs, or the driver's files
/// are not shown here. May block; from any thread.
std::vector<int> users_of_gpu(const health::XidLine& line, const std::vector<GpuUser>& workers);

}  // namespace ddprun::agent
