// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/command/command_server.hpp"
#include "agent/command/decision.hpp"
#include "agent/command/local_commands.hpp"
#include "agent/runner/stack_views.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/control/command.hpp"
#include "rendezvous/net/driver.hpp"
#include "rendezvous/server/caller_lines.hpp"

#include <boost/asio/io_context.hpp>

#include <sys/types.h>

#include <functional>
#include <optional>

namespace ddprun::agent {

class PostMortem;        // post_mortem.hpp
class RendezvousAccess;  // rendezvous_access.hpp
class WorkerProcesses;   // worker_processes.hpp

/// Performs the commands that `ddprunctl` sends to this agent, directly or through the server, and
/// logs those that change anything. A stop, and any command that the server decides, is posted to
/// the agent. The server's reply comes by `answer`. Lives on the agent's thread; workers are
/// sampled on the post mortem's thread.
class CommandExecutor {
public:
    /// The objects that commands read and act on. All must outlive this object.
    struct Target {
        const AgentConfig& config;
        /// The connection to the server.
        const RendezvousAccess& access;
        WorkerProcesses& workers;
        PostMortem& post_mortem;
        /// Called only while commands are performed.
        std::function<net::Driver<Agent>&()> agent;
    };

    CommandExecutor(boost::asio::io_context& io, pid_t keeper, Random& random, Target target);
    CommandExecutor(const CommandExecutor&) = delete;
    CommandExecutor& operator=(const CommandExecutor&) = delete;

    /// Replies with the server's answer to a command that was passed on to the server.
    void answer(const Agent::AnswerCommand& answer);
    /// Performs an order of the server, and posts `OrderPerformed`.
    void perform(const Agent::PerformOrder& order);

private:
    /// None: the reply comes later.
    std::optional<control::CommandReply> execute(const command::LocalCommands::Perform& order);
    control::NodeView view() const;
    command::Decision decide(const control::Command& command, const control::NodeView& view) const;
    void look(const command::StackOrder& order, StackViews::Answer answer);
    /// Signals the workers; the reply says which workers were reached.
    control::CommandReply signal(const command::SignalOrder& order, const control::NodeView& view);

    Target target_;
    command::CommandServer server_;
    StackViews stacks_;
    /// Limits the log lines about orders of the server.
    server::CallerLines order_lines_;
};

}  // namespace ddprun::agent
