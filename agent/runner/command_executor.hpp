// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/command/command_server.hpp"
#include "agent/command/local_commands.hpp"
#include "agent/runner/stack_views.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/control/command.hpp"
#include "rendezvous/net/driver.hpp"

#include <boost/asio/io_context.hpp>

#include <sys/types.h>

#include <functional>
#include <optional>

namespace ddprun::agent {

class PostMortem;        // post_mortem.hpp
class RendezvousAccess;  // rendezvous_access.hpp
class WorkerProcesses;   // worker_processes.hpp

/// Performs what `ddprunctl` asks of this agent, and logs it if it changes anything. A stop is
/// posted to the agent, and so is what the server is to decide: that is replied to by `answer`.
/// Lives on the agent's thread; workers are looked at on that of the post mortem.
class CommandExecutor {
public:
    /// What commands ask and act on. All must outlive this object.
    struct Target {
        const AgentConfig& config;
        /// How it reaches the server.
        const RendezvousAccess& access;
        WorkerProcesses& workers;
        PostMortem& post_mortem;
        /// Asked only while commands are performed.
        std::function<net::Driver<Agent>&()> agent;
    };

    CommandExecutor(boost::asio::io_context& io, pid_t keeper, Random& random, Target target);
    CommandExecutor(const CommandExecutor&) = delete;
    CommandExecutor& operator=(const CommandExecutor&) = delete;

    /// As the server has answered a command that was passed on to it.
    void answer(const Agent::AnswerCommand& answer);

private:
    /// Nothing: the reply comes later.
    std::optional<control::CommandReply> execute(const command::LocalCommands::Perform& order);

    Target target_;
    command::CommandServer server_;
    StackViews stacks_;
};

}  // namespace ddprun::agent
