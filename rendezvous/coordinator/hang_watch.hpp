// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

/// Checks whether any rank of the current round makes progress, by the nodes' reports
/// (--hang-after). hang_verdict.hpp draws the conclusion. This file decides when to judge the
/// ranks, and what follows. Nodes are notified of each hang once. With --on-hang=restart the ranks
/// that cause it are killed, and their nodes report failures.
namespace ddprun::coordinator {

void on_sites(JobStep& step, const Member& member, const control::NodeSites& sites);
void judge_hang_if_due(JobStep& step);

}  // namespace ddprun::coordinator
