// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_fence.hpp"

#include "agent/supervise/agent_parts.hpp"
#include "agent/supervise/agent_round.hpp"

#include <utility>

namespace ddprun::agent {

std::optional<Instant> probe_at(const AgentData& agent) {
    return agent.is_lost ? std::nullopt : agent.fence.probe_at(agent.link.membership());
}

void probe_neighbours(AgentStep& step) {
    auto& agent = step.agent;
    for (auto& ask : agent.fence.probe_all(step.now))
        step.emit(std::move(ask));
}

void on_peer_answered(AgentStep& step, const AgentInterface::PeerAnswered& answered) {
    auto& agent = step.agent;
    const bool is_over = agent.fence.on_answer(answered.ask, answered.answer);
    if (is_over && agent.fence_ends_at()) fence_self(step, "a neighbour is in a later round");
}

/// The server may soon assign this node's ranks to another node: no worker here may go on.
void fence_self(AgentStep& step, std::string reason) {
    auto& agent = step.agent;
    agent.fence.trip();
    notify_link(step, ServerLink::ReconnectRequested{});
    step.emit(AgentInterface::NoteStopping{agent.round->assignment.round, std::move(reason)});
    kill_workers(step);
}

void update_keeper(AgentStep& step) {
    auto& agent = step.agent;
    const auto ends_at = agent.fence_ends_at();
    if (agent.fence.change_keeper_fence(ends_at)) step.emit(AgentInterface::SetFence{ends_at});
}

}  // namespace ddprun::agent
