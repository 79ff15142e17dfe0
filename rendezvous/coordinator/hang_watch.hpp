// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

/// Checks whether any rank of the current round makes progress, by the nodes' reports
/// (--hang-after). hang_verdict.hpp draws the conclusion. This file decides when it is asked and
/// what follows: nodes are notified of each hang once, and with --on-hang=restart the ranks that
/// cause it are killed, which their nodes report as failures.
namespace ddprun::coordinator {

void on_sites(JobStep& step, const Member& member, const control::NodeSites& sites);
void judge_hang_if_due(JobStep& step);

}  // namespace ddprun::coordinator
