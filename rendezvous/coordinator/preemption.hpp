// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <cstddef>
#include <optional>
#include <string>

/// What follows when a node is about to be taken away: all ranks of the round save the same step
/// (save_agreement.hpp), then the job ends, or goes on without that node. A notice belongs to its
/// member and outlives rounds; a round that begins while there is one is to save as well.
namespace ddprun::coordinator {

void on_notice(JobStep& step, Member& member, const control::Notice& notice);
void on_save_report(JobStep& step, Member& member, const control::SaveReport& report);
/// The member leaves, or is lost: its notice needs no answer any more.
void forget_notice(JobStep& step, Member& member);
/// The round goes on without the member of this place, whose ranks have ended.
void on_gone_from_save(JobStep& step, std::size_t group_rank);
/// How all ranks have saved before they ended, which shows while the job recovers: their nodes have
/// reported it, and the agreement was of the server before. Requires: all have succeeded.
std::optional<std::string> saved_while_recovering(const JobData& job, Instant now);
/// What a member that comes back while the job recovers has of a save.
void recover_save(JobStep& step, Member& member, const control::Resume& resume);

/// In a round that has begun, or goes on. Requires: job.is<Running>().
void begin_save_if_noticed(JobStep& step);
/// In a new round a drained node that waits for a save has no place, and nothing to save.
void end_notices_of_drained(JobStep& step);
/// After a recovery, without a notice so far: ranks may wait at a step that the server before had
/// proposed, or had agreed to without reaching every node.
void settle_orphaned_save(const JobStep& step);
/// What a member that has come back may have missed.
void repeat_save(const JobStep& step, const Member& member);
/// The nodes that gave notice leave without a common save when its time is over.
void end_save_if_due(JobStep& step);

/// Every rank has saved: the job ends, with this reason.
void end_as_saved(JobStep& step, const std::string& reason);

/// Whether `save` holds where `known` is the newest so far.
bool is_newer(const control::SavePoint& save, const std::optional<control::SavePoint>& known);

}  // namespace ddprun::coordinator
