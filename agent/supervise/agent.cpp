// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"

#include "agent/supervise/agent_commands.hpp"
#include "agent/supervise/agent_fence.hpp"
#include "agent/supervise/agent_hang.hpp"
#include "agent/supervise/agent_health.hpp"
#include "agent/supervise/agent_leave.hpp"
#include "agent/supervise/agent_messages.hpp"
#include "agent/supervise/agent_parts.hpp"
#include "agent/supervise/agent_reports.hpp"
#include "agent/supervise/agent_round.hpp"
#include "agent/supervise/agent_save.hpp"
#include "agent/supervise/agent_store.hpp"
#include "rendezvous/base/machine.hpp"

#include <utility>
#include <variant>

namespace ddprun::agent {
namespace {

using Interface = AgentInterface;

bool is_due(const std::optional<Instant>& moment, Instant now) {
    return moment && now >= *moment;
}

void begin(AgentStep& step) {
    auto& agent = step.agent;
    agent.began_at = agent.phase_began_at = step.now;
    agent.stores.open(step.out);
    const auto& left = agent.config.preemption.time_left;
    const auto grace = agent.config.join.settings.grace;
    // If the time left is shorter than the grace, the scheduler ends the allocation before a save.
    if (left && *left > grace) agent.preemption.allocation_stop_at = step.now + *left - grace;
    if (!agent.config.health_check.empty())
        return check_health(step, Interface::CheckHealth::Reason::start);
    notify_link(step, ServerLink::ConnectRequested{});
}

void on_deadline(AgentStep& step) {
    auto& agent = step.agent;
    const auto now = step.now;
    const auto is_done = [&agent] { return agent.phase == AgentPhase::done; };
    if (is_due(agent.fence_ends_at(), now))
        fence_self(step, agent.fence.silence(agent.link.membership(), now));
    if (is_done()) return;
    if (agent.group() != nullptr) notify_group(step, WorkerGroup::DeadlinePassed{});
    if (is_done()) return;
    if (agent.round) notify_failures(step, FailureReport::DeadlinePassed{});
    if (is_done()) return;
    if (agent.round && is_due(agent.round->note_at, now)) note_next_round(step);
    notify_link(step, ServerLink::DeadlinePassed{});
    if (is_done()) return;
    if (is_due(probe_at(agent), now)) probe_neighbours(step);
    if (agent.leaving && is_due(agent.leaving->result_deadline, now)) return finish_node(step);
    if (is_due(notice_at(agent), now)) on_allocation_ending(step);
    if (is_due(notice_ends_at(agent), now)) end_notice(step, "the ranks did not save in time");
    if (is_done()) return;
    if (is_due(look_at(agent), now)) look_at_workers(step);
    if (is_due(xid_end_at(agent), now)) end_for_xid(step);
    if (is_due(agent.times_out_at(), now)) notify_link(step, ServerLink::TimedOut{});
}

void dispatch(AgentStep& step, Agent::Event event) {
    auto& agent = step.agent;
    std::visit(
        Overloaded{
            [&](Interface::Began) { begin(step); },
            [&](const Interface::StoreOpened& opened) {
                agent.stores.on_opened(opened.port);
                const bool is_free =
                    agent.phase == AgentPhase::joining || agent.phase == AgentPhase::holding;
                if (is_free && agent.round) agent.round->reached.is_ready = true;
            },
            [&](Interface::StoreFailed& failed) {
                agent.stores.on_open_failed();
                end_node(step, InternalError{std::move(failed.reason)});
            },
            [&](Interface::SuccessionChanged changed) { notify_link(step, changed); },
            [&](Interface::HostingChanged changed) { agent.is_hosting = changed.is_hosting; },
            [&](Interface::LinkOpened& opened) { notify_link(step, std::move(opened)); },
            [&](Interface::LinkClosed& closed) { notify_link(step, std::move(closed)); },
            [&](Interface::ConnectRefused& refused) { notify_link(step, std::move(refused)); },
            [&](Interface::Received& received) {
                // Messages of a replaced connection are ignored.
                if (agent.link.is_current(received.link))
                    on_message(step, std::move(received.message));
            },
            [&](const Interface::WorkerSpawned& spawned) {
                notify_group(step, WorkerGroup::Spawned{spawned.local_rank, spawned.pid});
            },
            [&](Interface::WorkerExited& exited) { on_worker_exited(step, std::move(exited)); },
            [&](const Interface::WorkerRecoverable& recoverable) {
                if (agent.group() != nullptr) notify_group(step, recoverable);
            },
            [&](const Interface::WorkerHeld& held) {
                if (agent.is_current(held.round) && agent.group() != nullptr)
                    notify_group(step, WorkerGroup::Held{held.worker});
            },
            [&](Interface::FailureExplained& explained) {
                if (agent.round) notify_failures(step, std::move(explained));
            },
            [&](const Interface::LeftoversCounted& counted) {
                if (agent.group() != nullptr)
                    notify_group(step, WorkerGroup::LeftoversCounted{counted.count});
            },
            [&](Interface::StoreChecked& checked) { on_store_checked(step, std::move(checked)); },
            [&](const Interface::NoticeGiven& given) {
                if (agent.round) notify_failures(step, given);
            },
            [&](Interface::StoreWaited& waited) { on_store_waited(step, std::move(waited)); },
            [&](Interface::StoreClientsFound& found) {
                on_store_clients_found(step, std::move(found.clients));
            },
            [&](Interface::ProgressRead& read) {
                if (!agent.is_current(read.progress.round)) return;
                agent.round->progress.known = std::move(read.progress.ranks);
                agent.round->progress.changed_at = step.now - read.progress.age;
            },
            [&](Interface::WorkersSeen& seen) { on_workers_seen(step, std::move(seen)); },
            [&](Interface::SavesRead& read) {
                if (!agent.is_current(read.round)) return;
                agent.round->save.on_read(std::move(read.ranks));
                agent.preemption.has_asking_workers |= agent.round->save.asked().has_value();
            },
            [&](Interface::SaveShown& shown) {
                if (agent.is_current(shown.round))
                    agent.round->save.on_shown(shown.ballot, std::move(shown.ranks));
            },
            [&](const Interface::PeerAsked& asked) {
                const bool is_valid =
                    !agent.is_lost && agent.fence.is_valid(agent.link.membership(), step.now);
                step.emit(Interface::AnswerPeer{
                    asked.caller,
                    agent.fence.neighbours().answer(asked.probe, is_valid, step.now)});
            },
            [&](const Interface::PeerAnswered& answered) { on_peer_answered(step, answered); },
            [&](const Interface::Signalled& signalled) { on_signal(step, signalled); },
            [&](Interface::StopCommanded& stop) { on_stop_commanded(step, std::move(stop)); },
            [&](Interface::DrainCommanded& drain) { pass_on(step, drain.id, std::move(drain)); },
            [&](Interface::UndrainCommanded& undrain) {
                pass_on(step, undrain.id, std::move(undrain));
            },
            [&](Interface::ResizeCommanded& resize) {
                pass_on(step, resize.id, std::move(resize));
            },
            [&](Interface::OrderPerformed& performed) {
                on_order_performed(step, std::move(performed));
            },
            [&](Interface::HealthChecked& checked) { on_health_checked(step, std::move(checked)); },
            [&](Interface::XidSeen& seen) { on_xid_seen(step, std::move(seen)); },
            [&](Interface::DeadlinePassed) { on_deadline(step); },
        },
        event);
}

void check(const AgentData& agent) {
    require(
        (agent.phase != AgentPhase::starting && agent.phase != AgentPhase::running) ||
            agent.has_workers(),
        "a running node has workers");
    require(agent.phase != AgentPhase::joining || !agent.has_workers(), "a joining node has none");
    require(
        (agent.phase == AgentPhase::holding) == (agent.has_workers() && agent.group()->is_held()),
        "a node holds its workers when they are held");
}

}  // namespace

Agent::Agent(AgentConfig config, control::Node node, std::uint16_t peer_port, Random& random)
    : data_(std::move(config), std::move(node), peer_port, random) {}

void Agent::handle(Event event, Instant now, std::vector<Effect>& out) {
    if (data_.phase == Phase::done) return;
    const auto phase_before = data_.phase;
    AgentStep step{data_, now, out};
    dispatch(step, std::move(event));
    if (data_.phase != Phase::done) {
        clean_up_explained(step);
        report_to_server(step);
        update_keeper(step);
    }
    if (data_.phase != phase_before) data_.phase_began_at = now;
    check(data_);
}

std::string Agent::reason() const {
    if (data_.leaving) return data_.leaving->reason(data_.node.host);
    if (data_.phase == Phase::stopping && data_.round) return data_.round->stop_reason;
    return data_.phase == Phase::joining ? data_.standby_reason : std::string{};
}

std::optional<Instant> Agent::next_deadline() const {
    if (data_.phase == Phase::done) return std::nullopt;
    auto next = earliest(data_.link.next_deadline(), data_.times_out_at());
    next = earliest(earliest(next, data_.fence_ends_at()), probe_at(data_));
    if (data_.leaving) next = earliest(next, data_.leaving->result_deadline);
    next = earliest(next, notice_at(data_));
    next = earliest(earliest(next, notice_ends_at(data_)), look_at(data_));
    next = earliest(next, xid_end_at(data_));
    if (!data_.round) return next;
    const auto& round = *data_.round;
    next = earliest(earliest(next, round.failures.next_deadline()), round.note_at);
    if (round.group) next = earliest(next, round.group->next_deadline());
    return next;
}

}  // namespace ddprun::agent
