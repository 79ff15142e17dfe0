// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"
#include "rendezvous/coordinator/status.hpp"

#include <optional>
#include <string>

/// Long waits in the store of the current round: which ranks they are about. The node that serves
/// the store reports a wait and then the connections of its workers; the other members are asked for
/// theirs; when all are there the log gets a line. waiting_ranks.hpp compares the two.
namespace ddprun::coordinator {

/// The acknowledgement, and what the heartbeat says of the store.
void on_heartbeat(JobStep& step, const Member& member, const control::Heartbeat& heartbeat);

/// The longest wait, unless its last report is too old.
std::optional<StoreWaitStatus> store_wait_status(const JobData& job, Instant now);
/// Why this rank failed, if its wait timed out shortly before: a sentence, else empty.
std::string timed_out_wait_text(const JobData& job, int rank, Instant now);

}  // namespace ddprun::coordinator
