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

/// Returns the local ranks that use the GPU of this error: a process or descendant of the worker
/// has the GPU's device open. If the driver names a process of a worker, only that worker is
/// returned. If the named process belongs to no worker and the error stops only that process, no
/// worker is returned. A worker that has ended is found only as the named process. Empty also if
/// the driver's files are not visible here. May block; from any thread.
std::vector<int> users_of_gpu(const health::XidLine& line, const std::vector<GpuUser>& workers);

}  // namespace ddprun::agent
