// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_leave.hpp"

#include "agent/supervise/agent_parts.hpp"
#include "agent/supervise/agent_reports.hpp"
#include "agent/supervise/agent_round.hpp"
#include "agent/supervise/agent_save.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/versions.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <utility>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

/// The server sends no result to a node that leaves alone: the node waits only for a result that is
/// already in flight.
constexpr Duration late_result_timeout = 1s;

JobReport job_report(const AgentData& agent) {
    auto report = report_of(*agent.ending, agent.config, agent.worker_ends());
    report.host = agent.node.host;
    if (agent.round) {
        report.group_rank = agent.round->assignment.group_rank;
        report.world_size = agent.round->assignment.world_size;
        report.round = agent.round->assignment.round;
        report.restarts = agent.round->assignment.restart_count;
    }
    return report;
}

}  // namespace

void on_signal(AgentStep& step, const AgentInterface::Signalled& signalled) {
    auto& agent = step.agent;
    const int signal = signalled.signal;
    const auto grace = agent.config.join.settings.grace;
    if (agent.leaving || agent.ending) {
        // A second SIGINT comes from the user and takes effect at once; a scheduler only repeats
        // its signal.
        if (signal != SIGINT) {
            if (signalled.is_for_all_processes && agent.has_workers())
                notify_group(step, WorkerGroup::StopRequested{signal, grace, std::nullopt});
            return;
        }
        if (agent.has_workers()) return kill_workers(step);
        return finish_node(step);
    }
    const bool is_notice = signal == agent.config.preemption.signal;
    // Every rank has saved, and is being stopped because of that.
    if (is_ending_as_saved(agent) && (is_notice || signal == SIGTERM)) return;
    if (is_saved_before(agent, signalled)) {
        const auto& plan = agent.config.preemption;
        const auto reason = signal_name(signal) + " on " + agent.node.host;
        return give_notice(
            step, {signal, reason, step.now + plan.window(grace), step.now + plan.whole(grace)});
    }
    NodeLeaving leaving{is_notice ? SIGTERM : signal};
    if (is_notice) leaving.why = signal_name(signal) + " on " + agent.node.host;
    leave_job(step, std::move(leaving), signalled.is_for_all_processes && !is_notice);
}

void leave_job(AgentStep& step, NodeLeaving leaving, bool has_signalled_all) {
    auto& agent = step.agent;
    const int signal = leaving.signal;
    const auto of_command = leaving.command ? leaving.command->grace : std::nullopt;
    const auto left = grace_left(agent, step.now);
    const auto grace = std::min(of_command.value_or(left), left);
    agent.preemption.notice.reset();
    agent.leaving = std::move(leaving);
    if (agent.round) notify_failures(step, FailureReport::LeaveBegan{});
    // A command ends this job only: the server's other jobs, and the server itself, go on.
    const bool is_by_message = agent.leaving->command && agent.link.is_admitted() &&
                               agent.link.version() >= control::job_end_since;
    if (agent.is_hosting && !is_by_message) {
        agent.leaving->has_interrupted_server = true;
        step.emit(AgentInterface::InterruptServer{
            signal, agent.leaving->reason(agent.node.host), of_command});
    }
    report_to_server(step);
    if (signal == SIGINT && agent.has_workers()) step.emit(AgentInterface::NoteInterrupt{grace});
    WorkerGroup::StopRequested request{signal, grace};
    if (has_signalled_all) request.signal_after.reset();
    stop_workers(step, request);
}

void wait_for_result(AgentStep& step) {
    auto& agent = step.agent;
    if (agent.round) agent.round->reached.is_ready = true;
    if (!agent.link.is_admitted()) return finish_node(step);
    if (agent.leaving->result_deadline) return;
    // If the signal or command ends the whole job, the result comes when every node has stopped.
    const bool is_for_all = agent.leaving->has_interrupted_server || agent.leaving->ends_job();
    const auto drain =
        is_for_all ? agent.config.join.settings.grace + limits::drain_margin : Duration{};
    agent.leaving->result_deadline = step.now + drain + late_result_timeout;
    notify_link(step, ServerLink::ResultAwaited{});
}

void end_node(AgentStep& step, Ending ending) {
    auto& agent = step.agent;
    if (agent.ending) return;
    agent.ending = std::move(ending);
    stop_workers(step, {SIGTERM, agent.config.join.settings.grace});
}

void finish_node(AgentStep& step) {
    auto& agent = step.agent;
    if (agent.phase == AgentPhase::done) return;
    // The job's result does not say why an unfit node leaves.
    const bool is_unfit = agent.leaving && agent.leaving->by == NodeLeft::By::unfit;
    if (!agent.ending || is_unfit)
        agent.ending = NodeLeft{
            agent.leaving->signal,
            agent.leaving->reason(agent.node.host),
            agent.leaving->command ? NodeLeft::By::signal : agent.leaving->by};
    clean_up_round(step);
    notify_link(step, ServerLink::DisconnectRequested{});
    agent.stores.close_all(step.out);
    agent.fence.clear();
    if (agent.fence.change_keeper_fence(std::nullopt))
        step.emit(AgentInterface::SetFence{std::nullopt});
    agent.phase = AgentPhase::done;
    step.emit(AgentInterface::Finish{job_report(agent)});
}

}  // namespace ddprun::agent
