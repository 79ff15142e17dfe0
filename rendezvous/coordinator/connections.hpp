// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

/// Handles nodes that become members of a job, come back to it, or lose their connection.
namespace ddprun::coordinator {

/// A join of a node that is not a member, or of a member that has not received the answer to its
/// first join.
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

/// Adds a node as a member. Requires: there is no member with this nonce.
Member& add_member(
    JobStep& step, Connected connection, control::Join join, Reach reach, Member::State state);

}  // namespace ddprun::coordinator
