// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/connections.hpp"
#include "rendezvous/coordinator/job_data.hpp"

#include <string>

/// The state `Recovering`: the server was started again, and the job is rebuilt from what its
/// members report. Nothing of it is on a disk.
namespace ddprun::coordinator {

/// A node that is unknown to this server becomes a member. Null if it cannot belong here; then it
/// was answered.
Member* take_in(JobStep& step, const NodeResumed& resumed);
/// What a member reports of its round.
void recover(JobStep& step, Member& member, const control::Resume& resume);
/// After each event while the job recovers: ends the state when all are back or the lease is over.
void update_recovering(JobStep& step);

/// The number of the next round is not known: all members join again, and their rounds count from 0
/// under a new name.
void start_new_incarnation(JobStep& step);
/// Every member is lost, for this reason.
void reject_all(JobStep& step, const std::string& reason);

/// Why the job recovers, with what changes all the time: for /status.
std::string recovery_progress(const JobData& job, Instant now);

}  // namespace ddprun::coordinator
