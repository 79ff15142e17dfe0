// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/command/local_commands.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/command.hpp"

#include <functional>

namespace ddprun::agent {

class RendezvousAccess;  // rendezvous_access.hpp
class WorkerProcesses;  // worker_processes.hpp

/// What commands of `ddprunctl` ask and act on.
struct CommandTarget {
    const Agent& agent;
    const AgentConfig& config;
    /// How it reaches the server.
    const RendezvousAccess& access;
    WorkerProcesses& workers;
};

struct CommandOrigin {
    command::Sender sender;
    Instant at;
};

/// Performs it, and logs it if it changes anything. A stop is posted to the agent.
control::CommandReply execute(
    const control::Command& command,
    const CommandOrigin& origin,
    const CommandTarget& target,
    const std::function<void(Agent::Event)>& post);

}  // namespace ddprun::agent
