// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// Handlers of commands that users give to this agent, directly or through the server.
namespace ddprun::agent {

void on_stop_commanded(AgentStep& step, AgentInterface::StopCommanded stop);
/// Passes a command on to the server, which sends the answer.
void pass_on(AgentStep& step, int id, control::AgentMessage message);
/// Acts like SIGTERM, with the command as the reason. The server repeats the order after a resume.
void on_drain_order(AgentStep& step, const control::DrainOrder& order);
/// Performs a command that was given on another machine. Refuses it if the command's round is over
/// on this node, or if too many workers are being sampled already.
void on_worker_order(AgentStep& step, control::WorkerOrder order);
/// Answers the server, unless the order came on an earlier connection.
void on_order_performed(AgentStep& step, AgentInterface::OrderPerformed performed);

}  // namespace ddprun::agent
