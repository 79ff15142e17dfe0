// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <optional>
#include <string>

/// The state `Draining`: every worker of the current round is stopped, then the round is judged.
namespace ddprun::coordinator {

/// Stops the current round and enters the state. While the job recovers, the round is stopped
/// without entering the state. The result is valid until the job's next state. A `grace` shorter
/// than the job's own replaces it. Requires: job.is_round_going_on().
Draining& stop_round(
    JobStep& step,
    const control::Cause& cause,
    int signal,
    std::optional<Duration> grace = std::nullopt);

/// Requires: job.drain().
void stop_member(JobStep& step, Member& member);

/// No further round follows: members that are being stopped hold no worker any more, and get this
/// grace if it is shorter, with this reason. Requires: job.drain().
void hasten_stop(JobStep& step, const std::string& reason, std::optional<Duration> grace);

/// A member of the round that never received its assignment has no workers to wait for. The first
/// member is an exception: the others have used its store, and it opens a new one only after it has
/// received the assignment and then the stop.
void stop_unassigned(JobStep& step, Member& member);

/// The round continues without members whose workers are not gone in time. A silent member is
/// different: its workers may live until its fence, so the drain waits until it is lost or heard
/// again. A member that is heard again gets its full time again.
void put_out_the_stuck(JobStep& step);
void put_out_the_stuck_if_due(JobStep& step);

/// The facts known so far about the end of the round. Pointers are into `job`.
RoundEnd round_end(const JobData& job, Instant now);
/// The verdict if no further event arrives. Requires: job.drain().
Verdict verdict_so_far(const JobData& job, Instant now);

/// No member has workers any more: judges the round, and enters the next state. Requires: the job
/// is draining or cancelled, or every node leaves.
void end_round(JobStep& step);

}  // namespace ddprun::coordinator
