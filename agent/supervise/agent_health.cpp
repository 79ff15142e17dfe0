// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_health.hpp"

#include "agent/supervise/agent_leave.hpp"
#include "agent/supervise/agent_parts.hpp"

#include <csignal>
#include <optional>
#include <utility>

namespace ddprun::agent {

void check_health(AgentStep& step, AgentInterface::CheckHealth::Reason reason) {
    auto& agent = step.agent;
    if (agent.checking) return;
    agent.checking = reason;
    step.emit(AgentInterface::CheckHealth{reason});
}

/// Checks also after a secondary failure and during an explanation: which node is at fault is not
/// known yet.
void check_health_after_round(AgentStep& step) {
    auto& agent = step.agent;
    const auto& failures = agent.round->failures;
    const bool has_failed = failures.has_failure() || failures.is_open();
    if (agent.config.health_check.empty() || !has_failed) return;
    check_health(
        step,
        failures.has_hung() ? AgentInterface::CheckHealth::Reason::hang
                            : AgentInterface::CheckHealth::Reason::failure);
}

void on_health_checked(AgentStep& step, AgentInterface::HealthChecked checked) {
    auto& agent = step.agent;
    using Answer = AgentInterface::HealthChecked::Answer;
    const auto reason = std::exchange(agent.checking, std::nullopt);
    if (!reason || agent.leaving || agent.ending) return;
    const bool is_start = *reason == AgentInterface::CheckHealth::Reason::start;
    if (checked.answer == Answer::unfit) {
        NodeLeaving leaving{SIGTERM};
        leaving.why = agent.node.host + " is unfit: " + checked.text;
        leaving.by = NodeLeft::By::unfit;
        step.emit(AgentInterface::NoteUnfit{leaving.why});
        return leave_job(step, std::move(leaving), false);
    }
    // At the start of the job a check that cannot run is a mistake on the command line.
    if (checked.answer == Answer::not_run && is_start)
        return end_node(step, NodeRefused{"--health-check: " + checked.text});
    if (checked.answer != Answer::fit)
        step.emit(AgentInterface::NoteHealthUnknown{std::move(checked.text)});
    if (is_start) notify_link(step, ServerLink::ConnectRequested{});
}

}  // namespace ddprun::agent
