// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// This node's part of the job ends: by a signal, by the server, or by itself.
namespace ddprun::agent {

void on_signal(AgentStep& step, const AgentInterface::Signalled& signalled);
/// `has_signalled_all`: the workers have the signal already.
void leave_job(AgentStep& step, NodeLeaving leaving, bool has_signalled_all);
/// The workers of a node that leaves are gone.
void wait_for_result(AgentStep& step);
/// The first ending counts.
void end_node(AgentStep& step, Ending ending);
/// Nothing follows it. Requires: the agent has an ending, or is leaving.
void finish_node(AgentStep& step);

}  // namespace ddprun::agent
