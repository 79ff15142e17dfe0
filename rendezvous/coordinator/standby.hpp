// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <string>

/// Nodes without a place: why they wait, and holds of hosts that come and go.
namespace ddprun::coordinator {

/// A sentence for the node's own screen and /status.
std::string standby_reason(const JobData& job, const Member& member);

/// A node joined. If its host was lost or left more than once lately, it is held: a host that comes
/// and goes ends a round on every node each time.
void hold_back(JobStep& step, Member& member);
void end_holds_if_due(JobStep& step);

}  // namespace ddprun::coordinator
