// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/command/local_commands.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/command.hpp"

#include <functional>
#include <optional>

namespace ddprun::agent {

class WorkerProcesses;  // worker_processes.hpp

/// What commands of `ddprunctl` ask and act on.
struct CommandTarget {
    const Agent& agent;
    const AgentConfig& config;
    /// That the node has last connected to; port 0: none.
    const Endpoint& server;
    WorkerProcesses& workers;
};

/// Performs it, and logs it if it changes anything. A stop is posted to the agent, and so is what
/// the server is to decide: then there is no reply yet, and the caller's number is the `id` of
/// `Agent::AnswerCommand`.
std::optional<control::CommandReply> execute(
    const command::LocalCommands::Perform& order,
    Instant now,
    const CommandTarget& target,
    const std::function<void(Agent::Event)>& post);

}  // namespace ddprun::agent
