// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <string>

/// Nodes without a place: why they wait, and how long nodes of unreliable hosts are held.
namespace ddprun::coordinator {

/// A sentence for the node's own screen and /status.
std::string standby_reason(const JobData& job, const Member& member);

/// A node joined. If its host was lost or left more than once lately, the node is held, because
/// each loss ends a round on every node.
void hold_back(JobStep& step, Member& member);
void end_holds_if_due(JobStep& step);

}  // namespace ddprun::coordinator
