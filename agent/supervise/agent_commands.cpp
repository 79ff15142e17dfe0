// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_commands.hpp"

#include "agent/supervise/agent_leave.hpp"
#include "agent/supervise/agent_parts.hpp"
#include "agent/supervise/agent_reports.hpp"
#include "agent/supervise/agent_save.hpp"

#include <csignal>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::agent {
namespace {

/// Turns this node's own leaving, after which the other nodes would go on, into the end of the job.
void end_job_instead(AgentStep& step, NodeLeaving::JobEnd command, Duration grace) {
    auto& agent = step.agent;
    agent.leaving->command = std::move(command);
    agent.leaving->is_reported = false;
    agent.leaving->result_deadline.reset();
    report_to_server(step);
    // The workers have been signalled already: the request can only shorten the grace.
    if (agent.has_workers())
        return notify_group(
            step, WorkerGroup::StopRequested{agent.leaving->signal, grace, std::nullopt});
    wait_for_result(step);
}

}  // namespace

void on_stop_commanded(AgentStep& step, AgentInterface::StopCommanded stop) {
    auto& agent = step.agent;
    if (agent.fate() != AgentFate::open) return;
    const auto grace = stop.grace.value_or(agent.config.join.settings.grace);
    NodeLeaving::JobEnd command{std::move(stop.reason), stop.grace};
    if (agent.leaving) return end_job_instead(step, std::move(command), grace);
    leave_job(step, NodeLeaving{SIGTERM, std::move(command)}, false);
}

void pass_on(AgentStep& step, int id, control::AgentMessage message) {
    auto& agent = step.agent;
    if (agent.link.is_admitted()) return step.send(std::move(message));
    step.emit(AgentInterface::AnswerCommand{
        id, false, "this node has just lost its connection to the server"});
}

void on_drain_order(AgentStep& step, const control::DrainOrder& order) {
    auto& agent = step.agent;
    if (agent.leaving || agent.ending ||
        (agent.preemption.notice && agent.preemption.notice->is_drain) || is_ending_as_saved(agent))
        return step.note_stale("drain order");
    step.emit(AgentInterface::NoteDrained{order.reason});
    // The node is leaving already; only the recorded reason becomes the drain.
    if (agent.preemption.notice) {
        agent.preemption.notice->reason = order.reason;
        agent.preemption.notice->is_drain = true;
        return;
    }
    const auto grace = agent.config.join.settings.grace;
    const auto& plan = agent.config.preemption;
    if (is_saved_before(agent, {SIGTERM}))
        return give_notice(
            step,
            {SIGTERM,
             order.reason,
             step.now + plan.window(grace),
             step.now + plan.whole(grace),
             true});
    NodeLeaving leaving{SIGTERM};
    leaving.why = order.reason;
    leaving.by = NodeLeft::By::drain;
    leave_job(step, std::move(leaving), false);
}

}  // namespace ddprun::agent
