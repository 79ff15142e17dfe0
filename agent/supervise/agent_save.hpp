// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

#include <optional>
#include <string>

/// All ranks save the same step before this node is taken away.
namespace ddprun::agent {

/// Whether the workers run on after this signal in order to save. They do not if no rank of this
/// node has called `should_save` and no option says that a rank will.
bool is_saved_before(const AgentData& agent, const AgentInterface::Signalled& signalled);
/// A second notice counts only if it ends earlier, because a scheduler repeats its signal.
void give_notice(AgentStep& step, NodeNotice notice);
/// The time that signalled workers have left.
Duration grace_left(const AgentData& agent, Instant now);
/// Every rank has saved, and the job ends because of that.
bool is_ending_as_saved(const AgentData& agent);
void withdraw_proposal(AgentStep& step);
/// Ends the wait for a save, so that the rest of the time is left for an orderly stop. Requires:
/// there is a notice.
void end_notice(AgentStep& step, const std::string& reason);
/// When the expected end of the allocation becomes a notice.
std::optional<Instant> notice_at(const AgentData& agent);
std::optional<Instant> notice_ends_at(const AgentData& agent);
void on_allocation_ending(AgentStep& step);
void report_notice(AgentStep& step);
/// Empty: there is nothing to report about a save.
std::optional<control::SaveReport> save_report(const AgentData& agent);
void report_save(AgentStep& step);
void on_save_at(AgentStep& step, const control::SaveAt& order);
void on_notice_over(AgentStep& step, const control::NoticeOver& over);

}  // namespace ddprun::agent
