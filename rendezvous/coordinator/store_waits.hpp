// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"
#include "rendezvous/coordinator/status.hpp"

#include <optional>

/// Determines which ranks are in a long wait in the store of the current round, and which are
/// missing. The node that serves the store reports a wait and then the connections of its workers.
/// The server then requests those of the other members, and when all have answered, logs a line.
/// waiting_ranks.hpp compares the wait with the connections.
namespace ddprun::coordinator {

/// Answers a heartbeat and takes over its reports of the store and of the workers' progress.
void on_heartbeat(JobStep& step, const Member& member, const control::Heartbeat& heartbeat);

/// The longest wait, unless its last report is too old.
std::optional<StoreWaitStatus> store_wait_status(const JobData& job, Instant now);
/// Called when the round is over. If a rank failed shortly after its wait timed out, the wait
/// becomes the failure's `why`, unless its host has reported another cause. Not called earlier,
/// since answers of members may still arrive while the round is being stopped.
void explain_by_waits(JobData& job);

}  // namespace ddprun::coordinator
