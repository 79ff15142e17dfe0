// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_messages.hpp"

#include "agent/supervise/agent_commands.hpp"
#include "agent/supervise/agent_hang.hpp"
#include "agent/supervise/agent_leave.hpp"
#include "agent/supervise/agent_parts.hpp"
#include "agent/supervise/agent_round.hpp"
#include "agent/supervise/agent_save.hpp"
#include "agent/supervise/agent_store.hpp"
#include "agent/supervise/next_step.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace ddprun::agent {
namespace {

/// The first answer on a connection has the epoch of the leader that sends all its messages. If
/// this node already follows a newer leader, the messages are ignored and the connection is closed.
bool follows(AgentStep& step, std::uint64_t epoch) {
    auto& agent = step.agent;
    if (agent.promise.follow(epoch)) return true;
    step.note_stale(
        "leader of epoch " + std::to_string(epoch) + ", after one of epoch " +
        std::to_string(agent.promise.newest_epoch()));
    notify_link(step, ServerLink::ReconnectRequested{});
    return false;
}

void on_assignment(AgentStep& step, control::Assignment next) {
    auto& agent = step.agent;
    // The workers get the address that the user gave, even if this agent reaches the first node at
    // another address. With a members-only store they connect only to their own node.
    if (agent.config.rendezvous.is_static && !agent.config.has_members_store()) {
        next.master_addr = agent.config.rendezvous.endpoint.host;
        next.master_port = agent.config.rendezvous.endpoint.port;
    }
    // After a resume the server repeats the assignment that is in force.
    if (agent.round && next == agent.round->assignment) return;
    const bool is_old = agent.round && next.round <= agent.round->assignment.round;
    const bool has_free_place =
        !agent.has_workers() ||
        (agent.phase == AgentPhase::holding && (next.state || agent.group()->kept().empty()));
    const bool is_free = !is_old && has_free_place && agent.link.is_admitted();
    // The server began this round before it received the request to end the job, and waits for
    // every node to stop.
    if (is_free && agent.leaving && agent.leaving->has_interrupted_server && !agent.has_result())
        return begin_round_without_workers(step, std::move(next));
    if (!is_free || agent.leaving || agent.ending)
        return step.note_stale("assignment of round " + std::to_string(next.round));
    // The assignment was delayed beyond the lease: the server may have reassigned this node's ranks
    // since. The answer to a resume repeats the assignment if it is still in force.
    if (!agent.fence.is_valid(agent.link.membership(), step.now)) {
        step.note_stale("assignment of round " + std::to_string(next.round) + " after the lease");
        return notify_link(step, ServerLink::ReconnectRequested{});
    }
    begin_round(step, std::move(next));
}

/// If another node of the Slurm step was signalled, this node waits before it signals its workers:
/// the scheduler signals them too.
Duration signal_after(const AgentData& agent, const control::Cause& cause) {
    const bool comes_too =
        cause.signal != 0 && agent.config.is_signalled_as_a_whole && !agent.leaving;
    return comes_too ? limits::scheduler_signal_window : Duration{};
}

/// Whether this node's log has the cause already: the end of a worker here, a Ctrl-C here, or a
/// command.
bool is_noted(const AgentData& agent, const control::Stop& stop) {
    const auto& cause = stop.root_cause;
    if (agent.leaving && agent.leaving->signal == SIGINT && cause.signal == SIGINT) return true;
    // The command was logged when it came.
    if (agent.leaving && agent.leaving->command && cause.reason == agent.leaving->command->reason)
        return true;
    const auto& failures = agent.round->failures;
    return cause.worker && failures.is_reportable() &&
           failures.failure().rank == cause.worker->rank;
}

void on_stop(AgentStep& step, const control::Stop& stop) {
    auto& agent = step.agent;
    const auto grace = std::min(stop.grace, grace_left(agent, step.now));
    // A later round may have begun and ended while this node holds its workers of the one before.
    const bool is_meant =
        agent.is_current(stop.round) ||
        (agent.phase == AgentPhase::holding && stop.round >= agent.round->assignment.round);
    if (is_meant) {
        const auto& worker = stop.root_cause.worker;
        notify_failures(step, FailureReport::StopReceived{worker && worker->is_secondary});
        agent.round->stop_reason = stop.reason;
        // The job ends: its result contains the cause, and no save is needed any more.
        const bool ends_job = stop.root_cause.kind == control::Cause::Kind::cancelled;
        if (ends_job && !is_ending_as_saved(agent)) agent.preemption.notice.reset();
    }
    if (!is_meant || !agent.has_workers())
        return step.note_stale("stop of round " + std::to_string(stop.round));
    if (!is_noted(agent, stop)) step.emit(AgentInterface::NoteStopping{stop.round, stop.reason});
    if (stop.how == SIGKILL) return kill_workers(step);
    const WorkerGroup::StopRequested request{stop.how, grace, signal_after(agent, stop.root_cause)};
    if (stop.keeps)
        stop_or_hold_workers(step, request);
    else
        stop_workers(step, request);
}

void on_result(AgentStep& step, control::JobResult result) {
    auto& agent = step.agent;
    if (agent.has_result()) return step.note_stale("result");
    const auto& cause = result.root_cause;
    const int signal = cause && cause->signal != 0 ? cause->signal : SIGTERM;
    const auto after = cause ? signal_after(agent, *cause) : Duration{};
    agent.ending = std::move(result);
    stop_workers(step, {signal, agent.config.join.settings.grace, after});
}

void on_lost(AgentStep& step, const control::Lost& lost) {
    auto& agent = step.agent;
    agent.is_lost = true;
    notify_link(step, ServerLink::DisconnectRequested{});
    step.emit(AgentInterface::NoteStopping{
        agent.round ? agent.round->assignment.round : -1, lost.reason});
    kill_workers(step);
}

}  // namespace

void on_message(AgentStep& step, control::ServerMessage message) {
    auto& agent = step.agent;
    std::visit(
        Overloaded{
            [&](const control::Hello&) { step.note_stale("hello"); },
            [&](const control::Lost& lost) { on_lost(step, lost); },
            [&](const control::Resized& resized) { agent.resized = resized; },
            [&](control::Drained& drained) { agent.drained = std::move(drained); },
            // For the voter of this process.
            [](const control::Voters&) {},
            [&](control::Assignment& next) { on_assignment(step, std::move(next)); },
            [&](const control::Stop& stop) { on_stop(step, stop); },
            [&](control::Standby& standby) {
                if (agent.round) agent.round->note_at.reset();
                agent.standby_reason = standby.reason;
                if (standby.missing > 0)
                    step.emit(AgentInterface::NoteMissing{
                        std::move(standby.reason), next_step_for_missing(agent.config)});
                else
                    step.emit(AgentInterface::NoteStandby{std::move(standby.reason)});
            },
            [&](const control::Ask& ask) {
                const auto answer = agent.fence.neighbours().on_asked_about(ask, step.now);
                if (!answer) return step.note_stale("ask");
                step.send(*answer);
            },
            [&](const control::SaveAt& order) { on_save_at(step, order); },
            [&](const control::NoticeOver& over) { on_notice_over(step, over); },
            [&](const control::DrainOrder& order) { on_drain_order(step, order); },
            [&](control::WorkerOrder& order) { on_worker_order(step, std::move(order)); },
            [&](control::HangFound& found) { on_hang_found(step, std::move(found)); },
            [&](control::DrainAnswer& answer) {
                step.emit(AgentInterface::AnswerCommand{
                    answer.id, answer.is_done, std::move(answer.text)});
            },
            // Only sent to ddprunctl.
            [&](const control::RankReport&) { step.note_stale("rank_report"); },
            [&](const control::JobCommandAnswer&) { step.note_stale("job_command_answer"); },
            [&](control::JobResult& result) { on_result(step, std::move(result)); },
            [&](control::ProtocolError& error) {
                end_node(
                    step,
                    NodeRefused{
                        "the rendezvous server did not accept what this node said: " +
                        error.reason});
            },
            [&](control::Welcome& welcome) {
                if (!follows(step, welcome.epoch)) return;
                agent.resized.reset();
                agent.drained.reset();
                notify_link(step, std::move(welcome));
            },
            [&](control::Refused& refused) { notify_link(step, std::move(refused)); },
            [&](control::Resumed& resumed) {
                if (follows(step, resumed.epoch)) notify_link(step, resumed);
            },
            [&](control::HeartbeatAck& ack) {
                if (ack.goodput)
                    agent.goodput = KeptGoodput{agent.incarnation(), *ack.goodput, step.now};
                notify_link(step, ack);
                if (ack.clients_of) find_store_clients(step, *ack.clients_of);
            },
        },
        message);
}

}  // namespace ddprun::agent
