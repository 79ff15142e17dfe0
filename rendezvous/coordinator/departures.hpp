// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <string>

/// Handles members that are lost or leave, and the effect on the round. `Silence` decides which
/// silent member is lost; these functions pass it its events and perform its effects.
namespace ddprun::coordinator {

/// Passes the event on and performs the effects. The member of the event may be removed by this
/// call.
void feed_silence(JobStep& step, Silence::Event event);
/// Passes the current round's places and neighbours to `Silence`.
void feed_round_to_silence(JobStep& step);

/// The server did not run for a while, or was restarted, so silence of nodes means nothing. All
/// deadlines for messages of nodes begin again.
void restart_clocks(JobStep& step);

/// Removes the member as lost, for this reason.
void lose(JobStep& step, Member& member, const std::string& how);
/// The member leaves or is lost: updates the round accordingly.
void depart(JobStep& step, const Member& member, control::Cause cause);
void remove_member(JobStep& step, Member& member);

/// A cause that names the member and the round.
control::Cause node_cause(
    const JobData& job, control::Cause::Kind kind, const Member& member, std::string reason);

}  // namespace ddprun::coordinator
