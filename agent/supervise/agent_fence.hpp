// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

#include <optional>
#include <string>

/// The time until which this node may treat its ranks as its own (fence.hpp, docs/fence.md).
namespace ddprun::agent {

std::optional<Instant> probe_at(const AgentData& agent);
void probe_neighbours(AgentStep& step);
void on_peer_answered(AgentStep& step, const AgentInterface::PeerAnswered& answered);
/// Kills the workers.
void fence_self(AgentStep& step, std::string reason);
/// Sends the time of the fence to the keeper, which kills this node if the agent has not done so.
void update_keeper(AgentStep& step);

}  // namespace ddprun::agent
