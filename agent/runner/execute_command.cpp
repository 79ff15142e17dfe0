// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/execute_command.hpp"

#include "agent/command/command_server.hpp"
#include "agent/command/decision.hpp"
#include "agent/runner/rendezvous_access.hpp"
#include "agent/runner/worker_processes.hpp"
#include "rendezvous/base/log.hpp"

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::agent {
namespace executing {
namespace {

command::NodeFacts facts_of(const CommandTarget& target) {
    const auto& agent = target.agent;
    const bool has_workers = agent.group() != nullptr && !agent.group()->is_over();
    return {agent.fate(), has_workers, agent.is_connected(), target.config.join.settings.grace};
}

command::LastServer last_server(const RendezvousAccess& access) {
    const auto& server = access.last_server();
    if (server.port == 0) return {};
    return {server.to_string(), access.page_token()};
}

/// The local ranks of the workers that it has reached.
std::vector<int> pass(const command::SignalOrder& order, WorkerProcesses& workers) {
    std::vector<int> reached;
    for (const int local_rank : order.local_ranks)
        if (workers.pass_signal(local_rank, order.signal)) reached.push_back(local_rank);
    return reached;
}

}  // namespace
}  // namespace executing

control::CommandReply execute(
    const control::Command& command,
    const CommandOrigin& origin,
    const CommandTarget& target,
    const std::function<void(Agent::Event)>& post) {
    const auto& config = target.config;
    const auto server = executing::last_server(target.access);
    const auto view = command::view_of(target.agent, config, server, origin.at);
    auto decision = command::decide(command, view, executing::facts_of(target));
    if (std::holds_alternative<std::monostate>(decision.order)) return decision.reply;
    const auto& sender = origin.sender;
    const auto by =
        command::describe_sender(sender, command::name_of_user(sender.user), config.join.node.host);
    log::warning(
        "command.obeyed",
        {{"command", control::describe(command)},
         {"by", by},
         {"user", sender.user},
         {"pid", sender.pid}});
    if (const auto* stop = std::get_if<command::StopOrder>(&decision.order))
        post(Agent::StopCommanded{"stopped by " + by, stop->grace});
    if (const auto* order = std::get_if<command::SignalOrder>(&decision.order))
        return command::reply_to_signal(
            order->signal, executing::pass(*order, target.workers), view);
    return decision.reply;
}

}  // namespace ddprun::agent
