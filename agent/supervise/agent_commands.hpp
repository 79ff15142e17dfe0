// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// What commands of this machine's users, and of the server for them, ask of an agent.
namespace ddprun::agent {

void on_stop_commanded(AgentStep& step, AgentInterface::StopCommanded stop);
/// The answer is the server's.
void pass_on(AgentStep& step, int id, control::AgentMessage message);
/// As SIGTERM, but that a command is the reason. It is repeated after a resume.
void on_drain_order(AgentStep& step, const control::DrainOrder& order);

}  // namespace ddprun::agent
