// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_health.hpp"

#include "agent/supervise/agent_leave.hpp"
#include "agent/supervise/agent_parts.hpp"
#include "rendezvous/base/machine.hpp"

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

/// Time for a worker whose GPU has an error: it usually ends by itself, with a traceback.
constexpr Duration xid_end_timeout = 5s;

void leave_as_unfit(AgentStep& step, const std::string& reason) {
    auto& agent = step.agent;
    NodeLeaving leaving{SIGTERM};
    leaving.why = agent.node.host + " is unfit: " + reason;
    leaving.by = NodeLeft::By::unfit;
    step.emit(AgentInterface::NoteUnfit{leaving.why});
    leave_job(step, std::move(leaving), false);
}

std::string_view effect_of(health::XidAction action) {
    switch (action) {
        case health::XidAction::shown: return "none";
        case health::XidAction::restart: return "the workers start again";
        case health::XidAction::unfit: return "the node leaves";
    }
    contradiction("an action of no kind", __FILE__, __LINE__);
}

}  // namespace

void check_health(AgentStep& step, AgentInterface::CheckHealth::Reason reason) {
    auto& agent = step.agent;
    if (agent.checking) return;
    agent.checking = reason;
    step.emit(AgentInterface::CheckHealth{reason});
}

/// The check also runs after a secondary failure and during an explanation: the node at fault is
/// not known yet.
void check_health_after_round(AgentStep& step) {
    auto& agent = step.agent;
    const auto& failures = agent.round->failures;
    const bool has_failed = failures.has_failure() || failures.is_open();
    if (agent.config.health_check.empty() || !has_failed) return;
    using Reason = AgentInterface::CheckHealth::Reason;
    check_health(
        step,
        failures.has_xid()    ? Reason::xid
        : failures.has_hung() ? Reason::hang
                              : Reason::failure);
}

void on_health_checked(AgentStep& step, AgentInterface::HealthChecked checked) {
    auto& agent = step.agent;
    using Answer = AgentInterface::HealthChecked::Answer;
    const auto reason = std::exchange(agent.checking, std::nullopt);
    if (!reason || agent.leaving || agent.ending) return;
    const bool is_start = *reason == AgentInterface::CheckHealth::Reason::start;
    if (checked.answer == Answer::unfit) return leave_as_unfit(step, checked.text);
    // At the start of the job a check that cannot run is a mistake on the command line.
    if (checked.answer == Answer::not_run && is_start)
        return end_node(step, NodeRefused{"--health-check: " + checked.text});
    if (checked.answer != Answer::fit && agent.config.is_health_strict)
        return leave_as_unfit(step, "--health-strict: " + checked.text);
    if (checked.answer != Answer::fit)
        step.emit(AgentInterface::NoteHealthUnknown{std::move(checked.text)});
    if (is_start) notify_link(step, ServerLink::ConnectRequested{});
}

void on_xid_seen(AgentStep& step, AgentInterface::XidSeen seen) {
    auto& agent = step.agent;
    const auto what = health::describe(seen.line);
    if (agent.leaving || agent.ending)
        return step.emit(AgentInterface::NoteXid{what, "none: this node is ending"});
    const auto meant = health::action_of(seen.line);
    if (seen.local_ranks.empty() || !seen.round) {
        // The verdict on a GPU may come after the end of the worker that had the error.
        const bool is_late =
            meant == health::XidAction::unfit && agent.xids.has_been_used(seen.line.gpu);
        step.emit(AgentInterface::NoteXid{
            what, is_late ? std::string{effect_of(meant)} : "none: no worker here uses this GPU"});
        if (is_late) leave_as_unfit(step, what);
        return;
    }
    agent.xids.note_used(seen.line.gpu);
    // Often every worker has all devices open. Then nothing shows which worker the error has
    // stopped.
    if (meant == health::XidAction::restart && seen.local_ranks.size() > 1)
        return step.emit(AgentInterface::NoteXid{
            what, "none: several workers use this GPU, and the driver names none of them"});
    const auto action = agent.xids.add(seen.line, *seen.round, step.now);
    step.emit(AgentInterface::NoteXid{what, std::string{effect_of(action)}});
    const int first = seen.local_ranks.front();
    const bool is_current = agent.is_current(*seen.round);
    const bool needs_restart = action == health::XidAction::restart;
    if (is_current)
        notify_failures(
            step, FailureReport::XidSeen{std::move(seen.local_ranks), what, needs_restart});
    if (action == health::XidAction::unfit) return leave_as_unfit(step, what);
    if (needs_restart && is_current && !agent.round->xid_end)
        agent.round->xid_end = {first, step.now + xid_end_timeout};
}

std::optional<Instant> xid_end_at(const AgentData& agent) {
    const bool counts = agent.phase == AgentPhase::running && agent.round && agent.round->xid_end;
    return counts ? std::optional{agent.round->xid_end->at} : std::nullopt;
}

void end_for_xid(AgentStep& step) {
    auto& round = *step.agent.round;
    const int local_rank = std::exchange(round.xid_end, std::nullopt)->local_rank;
    if (!round.group->worker(local_rank).exit()) step.emit(WorkerGroup::KillSession{local_rank});
}

}  // namespace ddprun::agent
