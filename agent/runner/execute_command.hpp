// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/command/local_commands.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/command.hpp"

#include <functional>
#include <optional>

namespace ddprun::agent {

class RendezvousAccess;  // rendezvous_access.hpp
class StackViews;        // stack_views.hpp
class WorkerProcesses;   // worker_processes.hpp

/// What commands of `ddprunctl` ask and act on.
struct CommandTarget {
    const Agent& agent;
    const AgentConfig& config;
    /// How it reaches the server.
    const RendezvousAccess& access;
    WorkerProcesses& workers;
    StackViews& stacks;
};

/// Performs it, and logs it if it changes anything. A stop is posted to the agent, and so is what
/// the server is to decide: then there is no reply yet, and the caller's number is the `id` of
/// `Agent::AnswerCommand`. A stack is answered by `stacks`.
std::optional<control::CommandReply> execute(
    const command::LocalCommands::Perform& order,
    Instant now,
    const CommandTarget& target,
    const std::function<void(Agent::Event)>& post);

/// As the server has answered a command that was passed on to it.
control::CommandReply reply_of(const Agent::AnswerCommand& answer);

}  // namespace ddprun::agent
