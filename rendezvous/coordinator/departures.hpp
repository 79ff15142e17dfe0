// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <string>

/// How members are lost or leave, and what that means for the round. Which silent member is lost is
/// decided by `Silence`: here it gets its events, and its effects are performed.
namespace ddprun::coordinator {

/// Passes the event on and performs the effects; a member that it names may be gone then.
void feed_silence(JobStep& step, Silence::Event event);
/// The current round's places and neighbours.
void feed_round_to_silence(JobStep& step);

/// The server did not run, or was started again: that it heard nothing meanwhile means nothing. All
/// deadlines that depend on a node being heard restart.
void restart_clocks(JobStep& step);

/// The member is lost, for this reason, and removed.
void lose(JobStep& step, Member& member, const std::string& how);
/// The member leaves, or is lost: what that means for the round.
void depart(JobStep& step, const Member& member, control::Cause cause);
void remove_member(JobStep& step, Member& member);

/// A cause that names the member and the round.
control::Cause node_cause(
    const JobData& job, control::Cause::Kind kind, const Member& member, std::string reason);

}  // namespace ddprun::coordinator
