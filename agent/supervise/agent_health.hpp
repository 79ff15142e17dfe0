// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// The agent runs the health check of its node (--health-check), and leaves the job if it is unfit.
namespace ddprun::agent {

/// Has no effect while a check is running.
void check_health(AgentStep& step, AgentInterface::CheckHealth::Reason reason);
void check_health_after_round(AgentStep& step);
void on_health_checked(AgentStep& step, AgentInterface::HealthChecked checked);

}  // namespace ddprun::agent
