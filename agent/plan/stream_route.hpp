// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/output_plan.hpp"

namespace ddprun::agent {

/// Where one stream of one worker goes.
struct StreamRoute {
    bool to_console = true;
    /// As whole lines with a prefix, or as JSON; else byte for byte.
    bool is_formatted = false;
    bool to_file = false;
    /// Its lines are looked at for the node's file of filtered ones.
    bool is_filtered = false;

    /// The worker may write to our own stream itself.
    bool is_inherited() const { return to_console && !is_formatted && !to_file; }
    bool operator==(const StreamRoute&) const = default;
};

StreamRoute route_of(const OutputPlan& plan, Stream stream, int local_rank, int rank);

}  // namespace ddprun::agent
