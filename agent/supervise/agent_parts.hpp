// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// The agent's parts get their events here, and what they decide is carried out.
namespace ddprun::agent {

void notify_link(AgentStep& step, ServerLink::Event event);
/// Requires: the agent has a group.
void notify_group(AgentStep& step, WorkerGroup::Event event);
/// Requires: the agent has a round.
void notify_failures(AgentStep& step, FailureReport::Event event);

}  // namespace ddprun::agent
