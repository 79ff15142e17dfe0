// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/execute_command.hpp"

#include "agent/command/command_server.hpp"
#include "agent/command/decision.hpp"
#include "agent/runner/rendezvous_access.hpp"
#include "agent/runner/stack_views.hpp"
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
    return {
        agent.fate(),
        has_workers,
        agent.is_connected(),
        target.config.join.settings.grace,
        agent.server_version()};
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

/// Nothing: it comes later.
std::optional<control::CommandReply> show_stack(
    int caller, const command::StackOrder& order, const CommandTarget& target) {
    const auto pid = target.workers.pid_of(order.local_rank);
    if (!pid) return command::reply_to_stack(order.rank, {}, {});
    target.stacks.show(caller, order.rank, *pid);
    return std::nullopt;
}

}  // namespace
}  // namespace executing

std::optional<control::CommandReply> execute(
    const command::LocalCommands::Perform& order,
    Instant now,
    const CommandTarget& target,
    const std::function<void(Agent::Event)>& post) {
    const auto& config = target.config;
    const auto server = executing::last_server(target.access);
    const auto view = command::view_of(target.agent, config, server, now);
    auto decision = command::decide(order.command, view, executing::facts_of(target));
    if (std::holds_alternative<std::monostate>(decision.order)) return decision.reply;
    if (const auto* stack = std::get_if<command::StackOrder>(&decision.order))
        return executing::show_stack(order.caller, *stack, target);
    const auto& sender = order.sender;
    const auto by =
        command::describe_sender(sender, command::name_of_user(sender.user), config.join.node.host);
    const bool is_passed_on = std::holds_alternative<command::PassOn>(decision.order);
    log::warning(
        is_passed_on ? "command.passed_on" : "command.obeyed",
        {{"command", control::describe(order.command)},
         {"by", by},
         {"user", sender.user},
         {"pid", sender.pid}});
    if (const auto* stop = std::get_if<command::StopOrder>(&decision.order))
        post(Agent::StopCommanded{"stopped by " + by, stop->grace});
    if (const auto* drain = std::get_if<control::DrainNodes>(&order.command))
        post(Agent::DrainCommanded{order.caller, drain->nodes, drain->is_forced, by});
    if (const auto* undrain = std::get_if<control::UndrainNodes>(&order.command))
        post(Agent::UndrainCommanded{order.caller, undrain->nodes, by});
    if (const auto* signal = std::get_if<command::SignalOrder>(&decision.order))
        return command::reply_to_signal(
            signal->signal, executing::pass(*signal, target.workers), view);
    return decision.reply;
}

control::CommandReply reply_of(const Agent::AnswerCommand& answer) {
    if (answer.is_done) return control::CommandDone{answer.text};
    return control::CommandRefused{control::CommandRefused::Why::not_possible, answer.text};
}

}  // namespace ddprun::agent
