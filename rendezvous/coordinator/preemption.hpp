// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <cstddef>
#include <optional>
#include <string>

/// Handles a node that is about to be taken away: all ranks of the round save the same step
/// (save_agreement.hpp), then the job ends, or continues without that node. A notice belongs to its
/// member and outlives rounds: a round that begins while there is a notice must save as well.
namespace ddprun::coordinator {

void on_notice(JobStep& step, Member& member, const control::Notice& notice);
void on_save_report(JobStep& step, Member& member, const control::SaveReport& report);
/// Called when the member leaves or is lost: its notice needs no answer any more.
void forget_notice(JobStep& step, Member& member);
/// The round continues without the member of this place, whose ranks have ended.
void on_gone_from_save(JobStep& step, std::size_t group_rank);
/// How all ranks had saved before they ended, as a text for the end of the job; known only while
/// the job recovers, from the reports of their nodes. The agreement was made by the previous
/// server. Requires: all have succeeded.
std::optional<std::string> saved_while_recovering(const JobData& job, Instant now);
/// Takes over the save state of a member that comes back while the job recovers.
void recover_save(JobStep& step, Member& member, const control::Resume& resume);

/// Begins a save if a member has given notice. Called when a round begins or continues. Requires:
/// job.is<Running>().
void begin_save_if_noticed(JobStep& step);
/// Ends the notices of drained nodes that have no place in the new round, since they have no ranks
/// to save.
void end_notices_of_drained(JobStep& step);
/// Called after a recovery; does nothing if a repeated notice has begun a save. Otherwise ranks may
/// wait at a step that the previous server had proposed, or whose agreement had not reached every
/// node.
void settle_orphaned_save(const JobStep& step);
/// Repeats the messages that a member may have missed before it came back.
void repeat_save(const JobStep& step, const Member& member);
/// When the time for the save is over, nodes that gave notice leave without a common save.
void end_save_if_due(JobStep& step);

/// Every rank has saved: ends the job for this reason.
void end_as_saved(JobStep& step, const std::string& reason);

/// Whether `save` replaces `known`, the newest save point so far.
bool is_newer(const control::SavePoint& save, const std::optional<control::SavePoint>& known);

}  // namespace ddprun::coordinator
