// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_store.hpp"

#include "agent/supervise/agent_parts.hpp"

#include <optional>
#include <string>
#include <utility>

namespace ddprun::agent {

void on_store_checked(AgentStep& step, AgentInterface::StoreChecked checked) {
    auto& agent = step.agent;
    const bool is_of_use =
        agent.phase == AgentPhase::starting || agent.phase == AgentPhase::running;
    if (!agent.is_current(checked.round) || !is_of_use || checked.failure.empty()) return;
    notify_failures(step, FailureReport::StoreUnreachable{std::move(checked.failure)});
}

void on_store_waited(AgentStep& step, AgentInterface::StoreWaited waited) {
    auto& agent = step.agent;
    // False if the store is being drained, or if its round has not begun.
    const bool is_of_round = agent.round && agent.round->assignment.group_rank == 0 &&
                             agent.round->assignment.master_port == waited.port &&
                             agent.has_workers();
    if (!is_of_round || !agent.link.is_admitted()) return;
    const int round = agent.round->assignment.round;
    const bool is_over = waited.wait.client_count == 0;
    waited.wait.round = round;
    step.send(control::Heartbeat{0, std::move(waited.wait)});
    // The search does not wait for a request of the server: by then a worker may have exited
    // because its wait timed out.
    if (!is_over) find_store_clients(step, round);
}

void find_store_clients(AgentStep& step, int round) {
    auto& agent = step.agent;
    // The search would show nothing about workers that are being stopped.
    if (!agent.is_current(round) || !agent.has_workers() || agent.phase == AgentPhase::stopping ||
        agent.phase == AgentPhase::holding)
        return step.note_stale("question about round " + std::to_string(round));
    const auto& workers = *agent.group();
    step.emit(AgentInterface::FindStoreClients{
        round, agent.round->assignment.master_port, workers.pids(), workers.ended()});
}

void on_store_clients_found(AgentStep& step, control::StoreClients clients) {
    auto& agent = step.agent;
    if (!agent.is_current(clients.round) || !agent.has_workers() || !agent.link.is_admitted())
        return;
    step.send(control::Heartbeat{0, std::nullopt, std::move(clients)});
}

}  // namespace ddprun::agent
