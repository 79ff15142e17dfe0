// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// A round on this node: its workers start, are stopped, and end.
namespace ddprun::agent {

/// Requires: the agent has no workers, and the server has admitted this node.
void begin_round(AgentStep& step, control::Assignment next);
/// A round in which this node no longer starts workers. Requires: the server has admitted this
/// node.
void begin_round_without_workers(AgentStep& step, control::Assignment next);
void on_worker_exited(AgentStep& step, AgentInterface::WorkerExited exited);
/// Workers that are being stopped already may get another signal, or a shorter grace.
void stop_workers(AgentStep& step, const WorkerGroup::StopRequested& request);
void kill_workers(AgentStep& step);
/// Call when the last process has ended. The reason of the stop is a set of facts (an ending, a
/// signal, a lost membership): what follows is decided from them here, once.
void after_group(AgentStep& step);
/// Removes the round's error files once its failure is explained.
void clean_up_explained(AgentStep& step);
/// Removes them even while a failure is being explained.
void clean_up_round(AgentStep& step);
/// Logs that the other nodes have made no new round for a while (NodeRound::note_at).
void note_next_round(AgentStep& step);

}  // namespace ddprun::agent
