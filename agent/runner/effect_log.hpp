// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/supervise/agent.hpp"

namespace ddprun::agent {

/// Writes the log line of an effect that is one (`Note...`); ignores all others.
void log_effect(const Agent::Effect& effect, const AgentConfig& config);

}  // namespace ddprun::agent
