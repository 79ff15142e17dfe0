// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_hang.hpp"

#include "agent/supervise/agent_parts.hpp"
#include "rendezvous/control/versions.hpp"

#include <string>
#include <utility>

namespace ddprun::agent {

/// Workers with an attached terminal are not watched: they may wait for their user.
void begin_watch(AgentStep& step) {
    auto& agent = step.agent;
    const auto& settings = agent.config.join.settings;
    if (!settings.hang_after || agent.config.worker.attachment) return;
    agent.round->watch.emplace(*settings.hang_after, settings.look_interval(), step.now);
}

std::optional<Instant> look_at(const AgentData& agent) {
    const bool counts = agent.phase == AgentPhase::running && agent.round && agent.round->watch;
    return counts ? agent.round->watch->look_at() : std::nullopt;
}

void look_at_workers(AgentStep& step) {
    auto& agent = step.agent;
    agent.round->watch->on_look_begun(step.now);
    step.emit(AgentInterface::LookAtWorkers{agent.round->assignment.round, agent.group()->pids()});
}

void on_workers_seen(AgentStep& step, AgentInterface::WorkersSeen seen) {
    auto& agent = step.agent;
    const bool counts =
        agent.is_current(seen.round) && agent.phase == AgentPhase::running && agent.round->watch;
    if (!counts) return;
    auto& watch = *agent.round->watch;
    watch.on_looked(std::move(seen.looks), agent.round->progress.known, step.now);
    if (!agent.link.is_admitted() || agent.link.version() < control::hang_since) return;
    control::Heartbeat heartbeat{0};
    heartbeat.sites = watch.sites(seen.round, agent.config.worker.nproc, agent.group()->ended());
    step.send(std::move(heartbeat));
}

void on_hang_found(AgentStep& step, control::HangFound found) {
    auto& agent = step.agent;
    const bool counts = agent.is_current(found.round) && agent.phase == AgentPhase::running;
    if (!counts) return step.note_stale("hang of round " + std::to_string(found.round));
    step.emit(AgentInterface::NoteHang{found.round, found.headline, std::move(found.rows)});
    if (found.killed.empty()) return;
    notify_failures(step, FailureReport::HangFound{found.killed, found.headline});
    for (const int local_rank : found.killed)
        if (local_rank < agent.group()->size() && !agent.group()->worker(local_rank).exit())
            step.emit(WorkerGroup::KillSession{local_rank});
}

}  // namespace ddprun::agent
