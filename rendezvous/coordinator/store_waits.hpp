// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"
#include "rendezvous/coordinator/status.hpp"

#include <optional>

/// Long waits in the store of the current round: which ranks they are about. The node that serves
/// the store reports a wait and then the connections of its workers; the other members are asked
/// for theirs; when all are there the log gets a line. waiting_ranks.hpp compares the two.
namespace ddprun::coordinator {

/// The acknowledgement, and what the heartbeat says of the store and of the workers' progress.
void on_heartbeat(JobStep& step, const Member& member, const control::Heartbeat& heartbeat);

/// The longest wait, unless its last report is too old.
std::optional<StoreWaitStatus> store_wait_status(const JobData& job, Instant now);
/// The round is over: a failure shortly after a wait of that rank timed out, of which its host
/// knows no other cause, gets the wait as its `why`. Not earlier: answers of members may still come
/// while the round is being stopped.
void explain_by_waits(JobData& job);

}  // namespace ddprun::coordinator
