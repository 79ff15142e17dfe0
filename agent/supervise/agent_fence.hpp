// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

#include <optional>
#include <string>

/// Until when this node's ranks are its own, as far as it knows (fence.hpp, docs/fence.md).
namespace ddprun::agent {

std::optional<Instant> probe_at(const AgentData& agent);
void probe_neighbours(AgentStep& step);
void on_peer_answered(AgentStep& step, const AgentInterface::PeerAnswered& answered);
/// Kills the workers.
void fence_self(AgentStep& step, std::string reason);
/// The keeper kills this node at the fence if the agent does not.
void update_keeper(AgentStep& step);

}  // namespace ddprun::agent
