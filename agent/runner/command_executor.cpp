// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/command_executor.hpp"

#include "agent/command/decision.hpp"
#include "agent/runner/post_mortem.hpp"
#include "agent/runner/rendezvous_access.hpp"
#include "agent/runner/worker_processes.hpp"
#include "rendezvous/base/log.hpp"

#include <unistd.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::agent {
namespace command_executor {
namespace {

command::NodeFacts facts_of(const Agent& agent, Duration grace) {
    const bool has_workers = agent.group() != nullptr && !agent.group()->is_over();
    return {agent.fate(), has_workers, agent.is_connected(), grace, agent.server_version()};
}

command::LastServer last_server(const RendezvousAccess& access) {
    const auto& server = access.last_server();
    if (server.port == 0) return {};
    return {server.to_string(), access.page_token()};
}

/// Sends the signal, and returns the local ranks of the workers that it has reached.
std::vector<int> pass(const command::SignalOrder& order, WorkerProcesses& workers) {
    std::vector<int> reached;
    for (const int local_rank : order.local_ranks)
        if (workers.pass_signal(local_rank, order.signal)) reached.push_back(local_rank);
    return reached;
}

}  // namespace
}  // namespace command_executor

CommandExecutor::CommandExecutor(
    boost::asio::io_context& io, pid_t keeper, Random& random, Target target)
    : target_(std::move(target)),
      server_(
          io,
          ::getuid(),
          keeper,
          random,
          [this](const command::LocalCommands::Perform& order) { return execute(order); }),
      stacks_(
          io,
          {[this](BlockingThread::Work work) { target_.post_mortem.look(std::move(work)); },
           [this] { return target_.agent().now(); },
           [this](int caller, control::CommandReply reply) {
               server_.answer(caller, std::move(reply));
           }}) {}

std::optional<control::CommandReply> CommandExecutor::execute(
    const command::LocalCommands::Perform& order) {
    const auto& config = target_.config;
    auto& driver = target_.agent();
    const auto& agent = driver.machine();
    const auto server = command_executor::last_server(target_.access);
    const auto view = command::view_of(agent, config, server, driver.now());
    auto decision = command::decide(
        order.command, view, command_executor::facts_of(agent, config.join.settings.grace));
    if (std::holds_alternative<std::monostate>(decision.order)) return decision.reply;
    if (const auto* stack = std::get_if<command::StackOrder>(&decision.order)) {
        const auto pid = target_.workers.pid_of(stack->local_rank);
        if (!pid) return command::reply_to_stack(stack->rank, {}, {});
        stacks_.show(order.caller, stack->rank, *pid);
        return std::nullopt;
    }
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
        driver.post(Agent::StopCommanded{"stopped by " + by, stop->grace});
    if (const auto* drain = std::get_if<control::DrainNodes>(&order.command))
        driver.post(Agent::DrainCommanded{order.caller, drain->nodes, drain->is_forced, by});
    if (const auto* undrain = std::get_if<control::UndrainNodes>(&order.command))
        driver.post(Agent::UndrainCommanded{order.caller, undrain->nodes, by});
    if (const auto* resize = std::get_if<control::ResizeJob>(&order.command))
        driver.post(Agent::ResizeCommanded{order.caller, resize->nodes, by});
    if (const auto* signal = std::get_if<command::SignalOrder>(&decision.order))
        return command::reply_to_signal(
            signal->signal, command_executor::pass(*signal, target_.workers), view);
    return decision.reply;
}

void CommandExecutor::answer(const Agent::AnswerCommand& answer) {
    if (answer.is_done) return server_.answer(answer.id, control::CommandDone{answer.text});
    server_.answer(
        answer.id,
        control::CommandRefused{control::CommandRefused::Why::not_possible, answer.text});
}

}  // namespace ddprun::agent
