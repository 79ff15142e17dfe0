// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <set>

/// The list of drained hosts outlives the server: a few nodes, the keepers, are sent the list after
/// each change, and return it to the next server in `Resume`. If all of them are lost together with
/// the server, so is the list.
namespace ddprun::coordinator {

/// The nodes that are to keep the list: the first ones with a place in the round, on different
/// hosts, none of them the host of the server.
std::set<Nonce> drain_keepers(const JobData& job);

/// After a change of the list.
void note_drain_change(JobData& job);
/// After each event: sends the list to the keepers if it or they have changed.
void update_drain_keepers(JobStep& step);
/// For a member that has come back: it may have missed the last change.
void repeat_drained_hosts(const JobStep& step, const control::Resume& resume);
/// Takes over the list that a member returns, unless a newer one is known.
void restore_drained_hosts(JobStep& step, const control::Resume& resume);
/// While the job is taken up: members without a place stand by if their host is in the list.
void hold_nodes_of_drained_hosts(JobData& job);

}  // namespace ddprun::coordinator
