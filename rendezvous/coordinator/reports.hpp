// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

/// Reports of members. A report about another round, except `ready`, has no effect and is counted
/// as stale.
namespace ddprun::coordinator {

/// Handles any message but `join` and `resume`.
void on_message(JobStep& step, Member& member, control::AgentMessage message);

void on_ready(JobStep& step, Member& member, const control::Ready& ready);
/// The member has reported workers that can be held.
void note_recoverable(JobStep& step, Member& member);
void on_started(JobStep& step, Member& member, const control::Started& started);
void on_succeeded(JobStep& step, Member& member, int round);
void on_failed(JobStep& step, Member& member, const control::Failed& failed);
/// The failure that a `resume` repeats. Requires: resume.failure.
control::Failed failed_of(const control::Resume& resume);

}  // namespace ddprun::coordinator
