// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// The agent runs the health check of its node (--health-check) and judges the errors of its GPUs
/// (--xid). It leaves the job if the node is unfit.
namespace ddprun::agent {

/// Has no effect while a check is running.
void check_health(AgentStep& step, AgentInterface::CheckHealth::Reason reason);
void check_health_after_round(AgentStep& step);
void on_health_checked(AgentStep& step, AgentInterface::HealthChecked checked);
void on_xid_seen(AgentStep& step, AgentInterface::XidSeen seen);
/// When a worker is killed because of its GPU.
std::optional<Instant> xid_end_at(const AgentData& agent);
/// Requires: the time `xid_end_at` has come.
void end_for_xid(AgentStep& step);

}  // namespace ddprun::agent
