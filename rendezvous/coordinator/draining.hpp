// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <optional>
#include <string>

/// The state `Draining`: every worker of the current round is stopped, then the round is judged.
namespace ddprun::coordinator {

/// Stops the current round. Enters the state, unless the job recovers: then the round is stopped
/// meanwhile. What is returned is valid until the job enters its next state.
/// A `grace` that is shorter than the job's own counts instead.
/// Requires: job.is_round_going_on().
Draining& stop_round(
    JobStep& step,
    const control::Cause& cause,
    int signal,
    std::optional<Duration> grace = std::nullopt);

/// Requires: job.drain().
void stop_member(JobStep& step, Member& member);

/// Members that are being stopped get less time, if it is less, and this reason for it. Requires:
/// job.drain().
void shorten_grace(JobStep& step, const std::string& reason, Duration grace);

/// A member of the round that never got its assignment has no workers to wait for. But if it is the
/// first one, the others have used its store, and only a round that it takes up and stops makes it
/// open another.
void stop_unassigned(JobStep& step, Member& member);

/// The round goes on without members whose workers are not gone in time. A silent member is another
/// case: its workers may live until it fences itself, so it is waited for until it is lost or heard
/// again, and then has all its time again.
void put_out_the_stuck(JobStep& step);
void put_out_the_stuck_if_due(JobStep& step);

/// What is known of the round's end so far. Pointers are into `job`.
RoundEnd round_end(const JobData& job, Instant now);
/// What the verdict would be if nothing else happens. Requires: job.drain().
Verdict verdict_so_far(const JobData& job, Instant now);

/// No member has workers any more: judges the round, and enters the next state.
/// Requires: the job drains, is cancelled, or every node leaves.
void end_round(JobStep& step);

}  // namespace ddprun::coordinator
