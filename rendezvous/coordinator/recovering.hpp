// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/connections.hpp"
#include "rendezvous/coordinator/job_data.hpp"

#include <string>

/// The state `Recovering`: the server was started again, and the job is rebuilt from what its
/// members report. No state of the job is stored on a disk.
namespace ddprun::coordinator {

/// Makes a node that is unknown to this server a member. Returns null after answering a node that
/// cannot belong here.
Member* take_in(JobStep& step, const NodeResumed& resumed);
/// Handles a member's report of its round.
void recover(JobStep& step, Member& member, const control::Resume& resume);
/// After each event while the job recovers: ends the state when all are back or the lease is over.
void update_recovering(JobStep& step);

/// The number of the next round is unknown: all members join again, and their rounds count from 0
/// under a new name.
void start_new_incarnation(JobStep& step);
/// Treats every member as lost, for this reason.
void reject_all(JobStep& step, const std::string& reason);

/// Why the job still recovers, with details that change too often for the log; for /status.
std::string recovery_progress(const JobData& job, Instant now);

}  // namespace ddprun::coordinator
