// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_parts.hpp"

#include "agent/supervise/agent_fence.hpp"
#include "agent/supervise/agent_hang.hpp"
#include "agent/supervise/agent_leave.hpp"
#include "agent/supervise/agent_round.hpp"
#include "agent/supervise/next_step.hpp"
#include "rendezvous/base/machine.hpp"

#include <csignal>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::agent {

void notify_link(AgentStep& step, ServerLink::Event event) {
    auto& agent = step.agent;
    std::vector<ServerLink::Effect> asked;
    agent.link.handle(std::move(event), step.now, asked);
    for (auto& effect : asked) {
        // Finish is the last effect of the agent: the link's remaining effects are dropped.
        if (agent.phase == AgentPhase::done) return;
        std::visit(
            Overloaded{
                [&](ServerLink::JoinUnanswered) {
                    agent.stores.discard_fresh(step.out);
                    agent.stores.open(step.out);
                },
                [&](ServerLink::Ended) { finish_node(step); },
                [&](ServerLink::Rejected& rejected) {
                    auto next_step = rejected.error ? next_step_after(*rejected.error, agent.config)
                                                    : std::string{};
                    end_node(step, NodeRefused{std::move(rejected.reason), std::move(next_step)});
                },
                [&](ServerLink::NoteWaiting& note) {
                    if (const auto end = agent.wait_ends_at())
                        note.timeout = *end - (step.now - note.waited);
                    step.emit(std::move(note));
                },
                [&](ServerLink::ServerGone& gone) {
                    const auto& last = agent.link.membership();
                    auto next_step =
                        agent.link.was_welcomed()
                            ? next_step_after_loss(last && last->welcome.hosted, agent.config)
                            : next_step_after(agent.link.last_error(), agent.config);
                    end_node(step, ServerGone{std::move(gone.reason), std::move(next_step)});
                },
                [&](ServerLink::FoundStale& stale) { step.note_stale(std::move(stale.what)); },
                [&](auto& order) { step.emit(std::move(order)); },
            },
            effect);
    }
}

void notify_group(AgentStep& step, WorkerGroup::Event event) {
    auto& agent = step.agent;
    require(agent.group() != nullptr, "workers belong to a group");
    std::vector<WorkerGroup::Effect> asked;
    agent.round->group->handle(std::move(event), step.now, asked);
    for (auto& effect : asked) {
        if (agent.phase == AgentPhase::done) return;
        std::visit(
            Overloaded{
                [&](WorkerGroup::Started) {
                    agent.phase = AgentPhase::running;
                    begin_watch(step);
                    agent.round->reached.has_started = true;
                },
                // FailureReport gets the worker's exit separately, and judges it.
                [&](WorkerGroup::Failed) {},
                [&](WorkerGroup::Succeeded) {
                    agent.phase = AgentPhase::succeeded;
                    agent.round->reached.has_succeeded = true;
                },
                [&](WorkerGroup::FoundStuck& stuck) {
                    step.emit(AgentInterface::NoteStuck{
                        std::move(stuck.local_ranks), stuck.leftover_count});
                    if (agent.ending || agent.leaving) finish_node(step);
                },
                [&](WorkerGroup::HeldAll) { hold_workers(step); },
                [&](WorkerGroup::Ended) { after_group(step); },
                [&](auto& order) { step.emit(std::move(order)); },
            },
            effect);
    }
}

void notify_failures(AgentStep& step, FailureReport::Event event) {
    auto& agent = step.agent;
    std::vector<FailureReport::Effect> asked;
    agent.round->failures.handle(std::move(event), step.now, asked);
    for (auto& effect : asked) {
        if (agent.phase == AgentPhase::done) return;
        std::visit(
            Overloaded{
                [&](FailureReport::StopWorkers) {
                    stop_or_hold_workers(step, {SIGTERM, agent.config.join.settings.grace});
                },
                [&](FailureReport::FailureFound) { agent.round->is_failure_reported = false; },
                [&](auto& order) { step.emit(std::move(order)); },
            },
            effect);
    }
}

}  // namespace ddprun::agent
