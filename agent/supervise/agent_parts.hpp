// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// Passes events to the agent's parts, and carries out the effects that they return.
namespace ddprun::agent {

void notify_link(AgentStep& step, ServerLink::Event event);
/// Requires: the agent has a group.
void notify_group(AgentStep& step, WorkerGroup::Event event);
/// Requires: the agent has a round.
void notify_failures(AgentStep& step, FailureReport::Event event);

}  // namespace ddprun::agent
