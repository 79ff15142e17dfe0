// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// A round on this node: its workers start, are stopped, and are gone.
namespace ddprun::agent {

/// Requires: the agent has no workers, and the server has this node.
void begin_round(AgentStep& step, control::Assignment next);
/// A round in which this node starts no workers any more. Requires: the server has this node.
void begin_round_without_workers(AgentStep& step, control::Assignment next);
void on_worker_exited(AgentStep& step, AgentInterface::WorkerExited exited);
/// Workers that are being stopped already may get another signal, or less time.
void stop_workers(AgentStep& step, const WorkerGroup::StopRequested& request);
void kill_workers(AgentStep& step);
/// The last process is gone. Why the workers were stopped is a set of facts (an ending, a signal, a
/// lost membership): what follows is decided from them here, once.
void after_group(AgentStep& step);
/// The error files of a round are removed once its failure is explained.
void clean_up_explained(AgentStep& step);
/// Whatever is still being explained.
void clean_up_round(AgentStep& step);
/// When the other nodes have made no new round for a while (NodeRound::note_at).
void note_next_round(AgentStep& step);

}  // namespace ddprun::agent
