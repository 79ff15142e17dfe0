// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <string>

/// How nodes become members of a job, come back to it, and are lost.
namespace ddprun::coordinator {

/// A join of a node that is not a member, or of one whose answer got lost.
struct NodeJoined {
    Connected connection;
    control::Join join;
};
struct NodeResumed {
    Connected connection;
    control::Resume resume;
};

void on_joined(JobStep& step, NodeJoined joined);
void on_resumed(JobStep& step, NodeResumed resumed);
/// The member's current connection ended.
void on_dropped(JobStep& step, Member& member);

/// A node that becomes a member. Requires: no member of this nonce is there.
Member& add_member(
    JobStep& step, Connected connection, control::Join join, Reach reach, Member::State state);

/// The member leaves, or is lost: what that means for the round.
void depart(JobStep& step, const Member& member, control::Cause cause);
void remove(JobStep& step, Member& member);
/// A cause that names the member and the round.
control::Cause node_cause(
    const JobData& job, control::Cause::Kind kind, const Member& member, std::string reason);

/// The server did not run, or was started again: that it heard nothing meanwhile means nothing. All
/// deadlines that depend on a node being heard restart.
void restart_clocks(JobStep& step);

/// Reports to `Silence` and performs its effects.
void feed_silence(JobStep& step, Silence::Event event);

}  // namespace ddprun::coordinator
