// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_commands.hpp"

#include "agent/supervise/agent_leave.hpp"
#include "agent/supervise/agent_parts.hpp"
#include "agent/supervise/agent_reports.hpp"
#include "agent/supervise/agent_save.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::agent {
namespace {

/// Called when this node is leaving and the other nodes would go on: ends the whole job instead.
void end_job_instead(AgentStep& step, NodeLeaving::JobEnd command, Duration grace) {
    auto& agent = step.agent;
    agent.leaving->command = std::move(command);
    agent.leaving->is_reported = false;
    agent.leaving->result_deadline.reset();
    report_to_server(step);
    // The workers have been signalled already: the request can only shorten the grace.
    if (agent.has_workers())
        return notify_group(
            step, WorkerGroup::StopRequested{agent.leaving->signal, grace, std::nullopt});
    wait_for_result(step);
}

using What = control::WorkerOrder::What;

/// Why the order cannot be performed; empty: it can.
std::string objection_to(const AgentData& agent, const control::WorkerOrder& order) {
    if (!agent.is_current(order.round) || !agent.has_workers())
        return "no worker of round " + std::to_string(order.round) + " runs on this node now";
    if (order.what != What::stack) return {};
    // A look may never end, because reading a process's files can hang.
    const auto open_count =
        std::count_if(agent.orders.begin(), agent.orders.end(), [](const auto& entry) {
            return entry.second.what == What::stack;
        });
    if (static_cast<std::size_t>(open_count) < limits::max_open_looks) return {};
    return "the agent is looking at " + std::to_string(open_count) + " workers already";
}

control::WorkerAnswer answer_to(const control::WorkerOrder& order, control::CommandReply reply) {
    control::WorkerAnswer answer{order.id, order.what, order.ranks};
    std::visit(
        Overloaded{
            [&](control::CommandDone& done) {
                answer.is_done = true;
                answer.text = std::move(done.text);
            },
            [&](control::RankStack& stack) {
                answer.is_done = true;
                answer.stack = std::move(stack);
            },
            [&](control::CommandRefused& refused) { answer.text = std::move(refused.reason); },
            [](const control::NodeView&) {},
        },
        reply);
    return answer;
}

}  // namespace

void on_worker_order(AgentStep& step, control::WorkerOrder order) {
    auto& agent = step.agent;
    const int link = agent.link.current();
    const std::pair key{link, order.id};
    if (agent.orders.contains(key)) return step.note_stale("worker order");
    if (auto why = objection_to(agent, order); !why.empty())
        return step.send(answer_to(
            order,
            control::CommandRefused{control::CommandRefused::Why::not_possible, std::move(why)}));
    agent.orders.emplace(key, order);
    step.emit(AgentInterface::PerformOrder{link, std::move(order)});
}

void on_order_performed(AgentStep& step, AgentInterface::OrderPerformed performed) {
    auto& agent = step.agent;
    const auto order = agent.orders.extract({performed.link, performed.id});
    // An order of another connection may come from another server, which gives ids of its own.
    if (order.empty() || !agent.link.is_current(performed.link))
        return step.note_stale("answer to a worker order");
    step.send(answer_to(order.mapped(), std::move(performed.reply)));
}

void on_stop_commanded(AgentStep& step, AgentInterface::StopCommanded stop) {
    auto& agent = step.agent;
    if (agent.fate() != AgentFate::open) return;
    const auto grace = stop.grace.value_or(agent.config.join.settings.grace);
    NodeLeaving::JobEnd command{std::move(stop.reason), stop.grace};
    if (agent.leaving) return end_job_instead(step, std::move(command), grace);
    leave_job(step, NodeLeaving{SIGTERM, std::move(command)}, false);
}

void pass_on(AgentStep& step, int id, control::AgentMessage message) {
    auto& agent = step.agent;
    if (agent.link.is_admitted()) return step.send(std::move(message));
    step.emit(AgentInterface::AnswerCommand{
        id, false, "this node has just lost its connection to the server"});
}

void on_drain_order(AgentStep& step, const control::DrainOrder& order) {
    auto& agent = step.agent;
    if (agent.leaving || agent.ending ||
        (agent.preemption.notice && agent.preemption.notice->is_drain) || is_ending_as_saved(agent))
        return step.note_stale("drain order");
    step.emit(AgentInterface::NoteDrained{order.reason});
    // The node is about to leave already: the drain only replaces the recorded reason.
    if (agent.preemption.notice) {
        agent.preemption.notice->reason = order.reason;
        agent.preemption.notice->is_drain = true;
        return;
    }
    const auto grace = agent.config.join.settings.grace;
    const auto& plan = agent.config.preemption;
    if (is_saved_before(agent, {SIGTERM}))
        return give_notice(
            step,
            {SIGTERM,
             order.reason,
             step.now + plan.window(grace),
             step.now + plan.whole(grace),
             true});
    NodeLeaving leaving{SIGTERM};
    leaving.why = order.reason;
    leaving.by = NodeLeft::By::drain;
    leave_job(step, std::move(leaving), false);
}

}  // namespace ddprun::agent
