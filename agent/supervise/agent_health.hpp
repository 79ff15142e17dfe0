// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// The agent has its node checked (--health-check), and leaves the job when it is unfit.
namespace ddprun::agent {

/// Unless a check runs already.
void check_health(AgentStep& step, AgentInterface::CheckHealth::Reason reason);
void check_health_after_round(AgentStep& step);
void on_health_checked(AgentStep& step, AgentInterface::HealthChecked checked);

}  // namespace ddprun::agent
