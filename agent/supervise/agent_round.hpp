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
/// Workers that are being stopped already may get a shorter grace, or their signal earlier.
void stop_workers(AgentStep& step, const WorkerGroup::StopRequested& request);
void kill_workers(AgentStep& step);
/// Another round may follow: workers that can be held are held, the others are stopped.
void stop_or_hold_workers(AgentStep& step, WorkerGroup::StopRequested request);
/// Call when every worker is gone or held.
void hold_workers(AgentStep& step);
/// Call when the last process has ended. Decides the next step, in this one place, from all reasons
/// for the stop: an ending, a signal, a lost membership.
void after_group(AgentStep& step);
/// Removes the round's error files once its failure is explained.
void clean_up_explained(AgentStep& step);
/// Removes the round's error files, even while its failure is being explained.
void clean_up_round(AgentStep& step);
/// Logs that no new round has begun for a while (NodeRound::note_at).
void note_next_round(AgentStep& step);

}  // namespace ddprun::agent
