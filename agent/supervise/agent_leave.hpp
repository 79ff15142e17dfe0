// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// This node's part of the job ends: by a signal, by the server, or by itself.
namespace ddprun::agent {

void on_signal(AgentStep& step, const AgentInterface::Signalled& signalled);
/// `has_signalled_all`: another process has sent the signal to the workers already.
void leave_job(AgentStep& step, NodeLeaving leaving, bool has_signalled_all);
/// Call when the workers of a leaving node have ended.
void wait_for_result(AgentStep& step);
/// Only the first ending counts.
void end_node(AgentStep& step, Ending ending);
/// Emits the agent's last effect. Requires: the agent has an ending, or is leaving.
void finish_node(AgentStep& step);

}  // namespace ddprun::agent
