// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/command_executor.hpp"

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

/// The command that has the effect of this order.
control::Command command_of(const control::WorkerOrder& order) {
    if (order.what == control::WorkerOrder::What::stack)
        return control::ShowStack{order.ranks.first};
    return control::SignalWorkers{order.signal, order.ranks.first, order.ranks.last};
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
           [this] { return target_.agent().now(); }}) {}

std::optional<control::CommandReply> CommandExecutor::execute(
    const command::LocalCommands::Perform& order) {
    auto& driver = target_.agent();
    const auto seen = view();
    auto decision = decide(order.command, seen);
    if (std::holds_alternative<std::monostate>(decision.order)) return decision.reply;
    if (const auto* stack = std::get_if<command::StackOrder>(&decision.order)) {
        look(*stack, [this, caller = order.caller](control::CommandReply reply) {
            server_.answer(caller, std::move(reply));
        });
        return std::nullopt;
    }
    const auto& sender = order.sender;
    const auto by = command::describe_sender(
        sender, command::name_of_user(sender.user), target_.config.join.node.host);
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
    if (const auto* wanted = std::get_if<command::SignalOrder>(&decision.order))
        return signal(*wanted, seen);
    return decision.reply;
}

void CommandExecutor::perform(const Agent::PerformOrder& order) {
    const auto answer =
        [this, link = order.link, id = order.order.id](control::CommandReply reply) {
            target_.agent().post(Agent::OrderPerformed{link, id, std::move(reply)});
        };
    const auto command = command_executor::command_of(order.order);
    const auto seen = view();
    auto decision = decide(command, seen);
    if (const auto* stack = std::get_if<command::StackOrder>(&decision.order))
        return look(*stack, answer);
    if (const auto* wanted = std::get_if<command::SignalOrder>(&decision.order)) {
        if (order_lines_.take(target_.agent().now())) {
            log::warning(
                "command.obeyed",
                {{"command", control::describe(command)}, {"by", order.order.by}});
            if (const auto count = order_lines_.take_left_out(); count > 0)
                log::warning("rendezvous.lines_left_out", {{"count", count}});
        }
        return answer(signal(*wanted, seen));
    }
    // The only other possible decision is a refusal.
    if (decision.reply) answer(std::move(*decision.reply));
}

control::NodeView CommandExecutor::view() const {
    auto& driver = target_.agent();
    return command::view_of(
        driver.machine(),
        target_.config,
        command_executor::last_server(target_.access),
        driver.now());
}

command::Decision CommandExecutor::decide(
    const control::Command& command, const control::NodeView& view) const {
    const auto grace = target_.config.join.settings.grace;
    return command::decide(
        command, view, command_executor::facts_of(target_.agent().machine(), grace));
}

void CommandExecutor::look(const command::StackOrder& order, StackViews::Answer answer) {
    const auto pid = target_.workers.pid_of(order.local_rank);
    if (!pid) return answer(command::reply_to_stack(order.rank, {}, {}));
    stacks_.show(order.rank, *pid, std::move(answer));
}

control::CommandReply CommandExecutor::signal(
    const command::SignalOrder& order, const control::NodeView& view) {
    std::vector<int> reached;
    for (const int local_rank : order.local_ranks)
        if (target_.workers.pass_signal(local_rank, order.signal)) reached.push_back(local_rank);
    return command::reply_to_signal(order.signal, reached, view);
}

void CommandExecutor::answer(const Agent::AnswerCommand& answer) {
    if (answer.is_done) return server_.answer(answer.id, control::CommandDone{answer.text});
    server_.answer(
        answer.id,
        control::CommandRefused{control::CommandRefused::Why::not_possible, answer.text});
}

}  // namespace ddprun::agent
