// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_round.hpp"

#include "agent/plan/death_note.hpp"
#include "agent/supervise/agent_fence.hpp"
#include "agent/supervise/agent_health.hpp"
#include "agent/supervise/agent_leave.hpp"
#include "agent/supervise/agent_parts.hpp"
#include "agent/supervise/agent_save.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/versions.hpp"

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

/// A round that needs no new node begins well within this time.
constexpr Duration next_round_note_after = 2s;

/// The address at which the workers reach this node.
std::string node_addr(const AgentConfig& config, const ServerLink& link) {
    if (!config.join.addr.empty()) return config.join.addr;
    const auto own_end = parse_endpoint(link.socket_addr(), 0);
    return own_end ? own_end->host : std::string{};
}

/// This node's ranks in the round, and the place where the other workers read about their deaths.
FailureReport::Place place_in(
    const control::Assignment& round, const std::string& incarnation, const AgentConfig& config) {
    FailureReport::Place place{round.round, round.rank_base, config.join.node.host};
    if (config.shares_store && round.world_size > 1)
        place.notice = DeathNote{
            {round.master_addr, round.master_port},
            store_names::deaths(incarnation, round.round, round.restart_count),
            {}};
    return place;
}

void leave_round(AgentStep& step) {
    auto& agent = step.agent;
    clean_up_round(step);
    agent.last_ends = agent.worker_ends();
    agent.round.reset();
}

void rejoin(AgentStep& step) {
    auto& agent = step.agent;
    agent.is_lost = false;
    agent.node.nonce = make_nonce(agent.random);
    agent.fence.become(agent.node.nonce);
    notify_link(step, ServerLink::DisconnectRequested{});
    agent.stores.close_all(step.out);
    leave_round(step);
    agent.phase = AgentPhase::joining;
    agent.stores.open(step.out);
    // The node joins only when it is known to be fit.
    if (agent.checking)
        agent.checking = AgentInterface::CheckHealth::Reason::start;
    else
        notify_link(step, ServerLink::ConnectRequested{});
}

/// The held workers are being stopped: this node is ready again when they are gone.
void end_hold(AgentStep& step) {
    auto& agent = step.agent;
    if (agent.phase != AgentPhase::holding) return;
    agent.round->reached.is_ready = false;
    agent.round->reported.is_ready = false;
}

/// A health check runs while there is no worker, so a node that has to make one holds none. The
/// server gives a node time to hold workers if it has reported that it can; any other node is out
/// of the round when its workers are not gone soon after their grace.
bool may_hold_workers(const AgentData& agent) {
    const auto& failures = agent.round->failures;
    const bool will_be_checked =
        !agent.config.health_check.empty() && (failures.has_failure() || failures.is_open());
    return agent.config.join.settings.recovery == control::Recovery::automatic &&
           agent.round->is_recoverable_reported && !agent.leaving && !agent.ending &&
           !will_be_checked;
}

}  // namespace

void begin_round(AgentStep& step, control::Assignment next) {
    auto& agent = step.agent;
    std::vector<int> kept;
    if (agent.phase == AgentPhase::holding)
        for (const auto& worker : agent.group()->kept())
            kept.push_back(worker.local_rank);
    leave_round(step);
    agent.stores.begin_round(next.group_rank == 0, agent.config.shares_store, step.out);
    const auto& incarnation = agent.link.membership()->welcome.incarnation;
    FailureReport failures{place_in(next, incarnation, agent.config)};
    agent.round =
        NodeRound{std::move(next), std::move(failures), WorkerGroup{agent.config.worker.nproc}};
    agent.phase = AgentPhase::starting;
    agent.standby_reason.clear();
    notify_link(step, ServerLink::WorkersStarted{});
    const auto& assignment = agent.round->assignment;
    step.emit(AgentInterface::SpawnWorkers{
        assignment, incarnation, node_addr(agent.config, agent.link), std::move(kept)});
    if (agent.config.shares_store)
        step.emit(AgentInterface::CheckStore{
            assignment.round, {assignment.master_addr, assignment.master_port}});
    agent.fence.enter_round(assignment);
    // The number of reachable neighbours must be reported before any node is silent. A hosting node
    // needs no probe where no server is elected: the one that judges it stops with this process.
    const bool needs_probe = !agent.is_hosting || agent.config.rendezvous.election;
    if (agent.fence.has_lease() && needs_probe) probe_neighbours(step);
}

void begin_round_without_workers(AgentStep& step, control::Assignment next) {
    auto& agent = step.agent;
    leave_round(step);
    FailureReport failures{
        place_in(next, agent.link.membership()->welcome.incarnation, agent.config)};
    agent.round = NodeRound{std::move(next), std::move(failures)};
    agent.round->reached.is_ready = true;
}

void on_worker_exited(AgentStep& step, AgentInterface::WorkerExited exited) {
    auto& agent = step.agent;
    require(agent.group() != nullptr, "workers belong to a group");
    const int local_rank = exited.local_rank;
    const FailureReport::WorkerExited report{
        local_rank,
        agent.group()->worker(local_rank).pid(),
        exited.exit,
        agent.group()->has_killed()};
    notify_group(step, WorkerGroup::Exited{local_rank, std::move(exited.exit)});
    notify_failures(step, report);
}

void stop_workers(AgentStep& step, const WorkerGroup::StopRequested& request) {
    auto& agent = step.agent;
    if (!agent.has_workers()) return after_group(step);
    if (agent.phase == AgentPhase::holding && request.hold_for) return;
    end_hold(step);
    withdraw_proposal(step);
    notify_failures(step, FailureReport::StopBegan{request.signal});
    agent.phase = AgentPhase::stopping;
    // The store is opened early, so that the next round need not wait for it. A node that ends has
    // no next round.
    if (!agent.ending && !agent.leaving) agent.stores.open(step.out);
    notify_group(step, request);
}

void stop_or_hold_workers(AgentStep& step, WorkerGroup::StopRequested request) {
    auto& agent = step.agent;
    if (agent.has_workers() && may_hold_workers(agent))
        request.hold_for = agent.config.join.settings.time_to_hold();
    stop_workers(step, request);
}

void hold_workers(AgentStep& step) {
    auto& agent = step.agent;
    if (agent.phase == AgentPhase::holding) return;
    agent.phase = AgentPhase::holding;
    agent.round->needs_clean_up = true;
    clean_up_explained(step);
    if (agent.fence.has_lease()) agent.round->note_at = step.now + next_round_note_after;
    if (agent.stores.fresh()) agent.round->reached.is_ready = true;
    agent.stores.open(step.out);
}

void kill_workers(AgentStep& step) {
    auto& agent = step.agent;
    if (!agent.has_workers()) return after_group(step);
    end_hold(step);
    notify_failures(step, FailureReport::StopBegan{SIGKILL});
    agent.phase = AgentPhase::stopping;
    notify_group(step, WorkerGroup::KillRequested{});
}

void after_group(AgentStep& step) {
    auto& agent = step.agent;
    notify_link(step, ServerLink::WorkersEnded{});
    if (agent.phase == AgentPhase::stopping) agent.round->needs_clean_up = true;
    clean_up_explained(step);
    if (agent.ending) return finish_node(step);
    if (agent.fence.is_tripped()) {
        agent.fence.clear();
        const auto& membership = agent.link.membership();
        // Before `valid_until` the fault may be on this node's side: the server may still answer in
        // time.
        if (membership->welcome.hosted && step.now >= membership->valid_until())
            return end_node(
                step,
                ServerGone{agent.link.with_last_error(
                    "nothing was heard of the ddprun that hosts the rendezvous")});
    }
    if (agent.is_lost && !agent.leaving) return rejoin(step);
    agent.phase = AgentPhase::joining;
    if (agent.leaving) return wait_for_result(step);
    if (!agent.round) return agent.stores.open(step.out);
    check_health_after_round(step);
    if (agent.fence.has_lease()) agent.round->note_at = step.now + next_round_note_after;
    if (agent.stores.fresh()) agent.round->reached.is_ready = true;
    agent.stores.open(step.out);
}

/// Keeps the round's error files while its failure is being explained from them.
void clean_up_explained(AgentStep& step) {
    auto& agent = step.agent;
    if (agent.round && !agent.round->failures.is_open()) clean_up_round(step);
}

void clean_up_round(AgentStep& step) {
    auto& agent = step.agent;
    if (!agent.round || !agent.round->needs_clean_up) return;
    agent.round->needs_clean_up = false;
    step.emit(AgentInterface::CleanUpRound{agent.round->assignment.round, agent.has_workers()});
}

/// Called when the workers have ended and no new round has begun for a while. Without this note the
/// screen would show nothing until the next round.
void note_next_round(AgentStep& step) {
    auto& agent = step.agent;
    agent.round->note_at.reset();
    // Without a connection, other lines describe the wait.
    const bool waits = agent.phase == AgentPhase::joining || agent.phase == AgentPhase::holding;
    if (!agent.link.is_admitted() || !waits) return;
    const auto& why = agent.round->stop_reason;
    const auto& settings = agent.config.join.settings;
    step.emit(AgentInterface::NoteStandby{
        "round " + std::to_string(agent.round->assignment.round) + " is over" +
        (why.empty() ? "" : " (" + why + ")") +
        "; waiting for the other nodes, or a replacement, at most " +
        whole_seconds(settings.join_timeout) +
        (settings.replacement_timeout
             ? ", for a replacement " + whole_seconds(*settings.replacement_timeout)
             : "")});
}

}  // namespace ddprun::agent
