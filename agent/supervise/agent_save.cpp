// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_save.hpp"

#include "agent/supervise/agent_leave.hpp"
#include "agent/supervise/agent_reports.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/versions.hpp"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

namespace ddprun::agent {

bool is_saved_before(const AgentData& agent, const AgentInterface::Signalled& signalled) {
    const auto& plan = agent.config.preemption;
    const int signal = signalled.signal;
    const bool is_notice = plan.signal != 0 && signal == plan.signal;
    if (agent.preemption.notice)
        return is_notice || (signal == SIGTERM && agent.preemption.notice->signal == SIGTERM);
    // Workers ignore the signal of a notice; any other signal may be ending them already.
    if (!is_notice && (signal != SIGTERM || signalled.is_for_all_processes)) return false;
    if (agent.phase != AgentPhase::starting && agent.phase != AgentPhase::running) return false;
    if (plan.window(agent.config.join.settings.grace) == Duration{}) return false;
    return plan.is_expected() || agent.preemption.has_asking_workers;
}

void give_notice(AgentStep& step, NodeNotice notice) {
    auto& agent = step.agent;
    if (agent.preemption.notice && agent.preemption.notice->ends_at <= notice.ends_at) return;
    if (agent.preemption.notice) {
        notice.killed_at = std::min(notice.killed_at, agent.preemption.notice->killed_at);
        notice.is_drain = notice.is_drain || agent.preemption.notice->is_drain;
    }
    agent.preemption.notice = std::move(notice);
    step.emit(AgentInterface::NoteNotice{
        agent.preemption.notice->reason, agent.preemption.notice->ends_at - step.now});
    report_to_server(step);
}

Duration grace_left(const AgentData& agent, Instant now) {
    const auto grace = agent.config.join.settings.grace;
    return agent.preemption.notice
               ? std::clamp(agent.preemption.notice->killed_at - now, Duration{}, grace)
               : grace;
}

/// True until the result arrives, even if the server that decided this is replaced before.
bool is_ending_as_saved(const AgentData& agent) {
    if (!agent.round) return false;
    const auto& point = agent.round->save.point();
    return point && point->state == control::SaveState::ending;
}

/// Releases the ranks that wait at a proposed step, because they are being stopped. The server's
/// later decision about the proposal applies only to the other nodes.
void withdraw_proposal(AgentStep& step) {
    auto& agent = step.agent;
    const auto& point = agent.round->save.point();
    if (!point || point->state != control::SaveState::proposed) return;
    step.emit(AgentInterface::ShowSave{
        agent.round->assignment.round,
        {point->ballot, point->step, control::SaveState::cancelled}});
}

void end_notice(AgentStep& step, const std::string& reason) {
    auto& agent = step.agent;
    step.emit(AgentInterface::NoteNoticeOver{reason});
    NodeLeaving leaving{SIGTERM};
    leaving.why = agent.preemption.notice->reason;
    if (agent.preemption.notice->is_drain) leaving.by = NodeLeft::By::drain;
    leave_job(step, std::move(leaving), false);
}

std::optional<Instant> notice_at(const AgentData& agent) {
    if (!agent.preemption.allocation_stop_at) return std::nullopt;
    return *agent.preemption.allocation_stop_at - limits::slurm_save_lead;
}

/// None while the workers are being stopped: then their grace is the limit.
std::optional<Instant> notice_ends_at(const AgentData& agent) {
    const bool counts = agent.preemption.notice && !agent.ending &&
                        agent.phase != AgentPhase::stopping && !is_ending_as_saved(agent);
    return counts ? std::optional{agent.preemption.notice->ends_at} : std::nullopt;
}

void on_allocation_ending(AgentStep& step) {
    auto& agent = step.agent;
    const auto ends_at = std::max(*agent.preemption.allocation_stop_at, step.now);
    agent.preemption.allocation_stop_at.reset();
    if (agent.leaving || agent.ending || is_ending_as_saved(agent)) return;
    const auto killed_at = ends_at + agent.config.join.settings.grace;
    give_notice(step, {0, "the end of the allocation on " + agent.node.host, ends_at, killed_at});
}

void report_notice(AgentStep& step) {
    auto& agent = step.agent;
    if (!agent.preemption.notice || agent.preemption.notice->is_reported || agent.leaving ||
        agent.ending || is_ending_as_saved(agent))
        return;
    agent.preemption.notice->is_reported = true;
    if (agent.link.version() < control::save_since)
        return end_notice(step, "the rendezvous server is of an older release of ddprun");
    control::Notice notice;
    notice.reason = agent.preemption.notice->reason;
    notice.signal = agent.preemption.notice->signal;
    notice.left = std::max(agent.preemption.notice->ends_at - step.now, Duration{});
    if (agent.round) {
        notice.asked = agent.round->save.asked();
        notice.round = agent.round->assignment.round;
    }
    notice.ends_job = agent.is_hosting;
    step.send(std::move(notice));
}

std::optional<control::SaveReport> save_report(const AgentData& agent) {
    const bool has_ranks = agent.phase == AgentPhase::starting ||
                           agent.phase == AgentPhase::running ||
                           agent.phase == AgentPhase::succeeded;
    if (!agent.round || !has_ranks || agent.group() == nullptr ||
        agent.link.version() < control::save_since)
        return std::nullopt;
    return agent.round->save.report(agent.round->assignment.round, *agent.group());
}

void report_save(AgentStep& step) {
    auto& agent = step.agent;
    auto report = save_report(agent);
    auto& save = agent.round->save;
    if (!report || report == save.reported) return;
    save.reported = report;
    step.send(std::move(*report));
}

void on_save_at(AgentStep& step, const control::SaveAt& order) {
    auto& agent = step.agent;
    using control::SaveState;
    const auto& point = order.save;
    // If all ranks have saved, the order also counts on a node whose ranks have ended since.
    const bool is_done = point.state == SaveState::saved || point.state == SaveState::ending;
    const bool has_ranks = agent.has_workers() && agent.phase != AgentPhase::stopping;
    const bool is_meant = agent.is_current(order.round) && (is_done || has_ranks) &&
                          point.step <= limits::highest_save_step;
    if (!is_meant) return step.note_stale("save at round " + std::to_string(order.round));
    auto& save = agent.round->save;
    // A repeated order makes this node send its report again.
    save.reported.reset();
    if (!save.on_order(point) || is_done) return;
    step.emit(AgentInterface::ShowSave{order.round, point, step.now + order.left});
    if (point.state == SaveState::agreed) step.emit(AgentInterface::NoteSave{point.step});
}

void on_notice_over(AgentStep& step, const control::NoticeOver& over) {
    auto& agent = step.agent;
    if (!agent.preemption.notice) return step.note_stale("notice over");
    end_notice(step, over.reason);
}

}  // namespace ddprun::agent
