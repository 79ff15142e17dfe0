// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/job_data.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

/// Workers that keep their processes, and the state in them, over the end of a round
/// (docs/recovery.md): while a round is being stopped their nodes hold them, and the next round
/// begins with the state of one of them.
namespace ddprun::coordinator {

/// A worker that is held, with the rank that it would have in the next round.
struct HeldWorker {
    int rank;
    control::KeptWorker worker;
};

/// The rank whose state all ranks begin with: of the workers whose state is complete the one with
/// the highest step, and of these the lowest rank. None: no worker has a complete state.
std::optional<control::StateSource> choose_source(std::span<const HeldWorker> held);

/// Whether nodes may hold their workers when a round ends because of this: another round may
/// follow, and every node of the round supports it.
bool may_keep_workers(const JobData& job, const control::Cause& cause);

/// Stops held workers that the next round cannot use; it begins when they are gone. `chosen`: the
/// members of the round that could begin now; empty: there is none yet. True: the job has left
/// `Forming`. Requires: job.is<Forming>().
bool stop_unusable_workers(JobStep& step, const std::vector<Member*>& chosen);

/// Stops the workers that a node holds outside of the round that goes on, which has no place for
/// it. `round`: the last one that the node was in. The node has a place again when it is ready.
void stop_held_outside(JobStep& step, Member& member, int round);

/// The state with which this round begins. Requires: each place is a member's.
std::optional<control::StateSource> source_of(const Round& round, const Membership& members);

/// How many rounds in a row have begun with the state of this step, when the next one does.
/// `last`: the round before it; may be null.
int uses_of(const std::optional<control::StateSource>& state, const Round* last);

/// How many workers of the members are held.
std::size_t held_count(const JobData& job);

}  // namespace ddprun::coordinator
