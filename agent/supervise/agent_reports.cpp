// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_reports.hpp"

#include "agent/supervise/agent_fence.hpp"
#include "agent/supervise/agent_parts.hpp"
#include "agent/supervise/agent_save.hpp"
#include "rendezvous/control/versions.hpp"

#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::agent {
namespace {

/// Why a server of this version cannot run the job; empty: it can. With a fixed number of nodes, a
/// round consists of whole units under any server.
std::string objection_to_server(const control::NodeRange& nodes, int version) {
    const bool is_fixed = nodes.min == nodes.max;
    if (!nodes.unit || is_fixed || version >= control::shape_since) return {};
    return "--node-unit=" + std::to_string(*nodes.unit) +
           ": the rendezvous server is of an older release, which forms rounds of any size; use "
           "ddprun-rendezvous of this release, or a fixed number of nodes";
}

control::Leave leave_message(const AgentData& agent) {
    control::Leave leave{agent.leaving->reason(agent.node.host), agent.leaving->signal};
    if (!agent.leaving->command) return leave;
    // On an older server only SIGINT ends the job.
    if (agent.link.version() < control::job_end_since) leave.signal = SIGINT;
    leave.ends_job = agent.link.version() >= control::job_end_since;
    leave.grace = leave.ends_job ? agent.leaving->command->grace : std::nullopt;
    return leave;
}

control::Join join_message(const AgentData& agent) {
    auto join = agent.config.join;
    join.node = agent.node;
    join.nproc = agent.config.worker.nproc;
    join.role = agent.config.worker.role;
    join.socket_addr = agent.link.socket_addr();
    join.store_port = agent.stores.offered();
    join.peer_port = agent.peer_port;
    join.versions = control::own_versions();
    join.epoch = agent.promise.newest_epoch();
    join.is_hosting = agent.is_hosting;
    if (agent.link.version() < control::shape_since) {
        join.nodes.unit.reset();
        join.node.topology.clear();
    }
    return join;
}

/// This node has workers that can be held, and a server that knows of such.
bool has_recoverable(const AgentData& agent) {
    return agent.link.version() >= control::recovery_since && agent.group() != nullptr &&
           agent.group()->has_recoverable();
}

control::Resume resume_message(const AgentData& agent, Instant now) {
    control::Resume resume;
    resume.join = join_message(agent);
    resume.incarnation = agent.link.membership()->welcome.incarnation;
    resume.token = agent.link.membership()->welcome.token;
    resume.reached = agent.fence.reported_reach();
    if (agent.goodput && agent.goodput->incarnation == resume.incarnation &&
        agent.link.version() >= control::goodput_since) {
        resume.goodput = agent.goodput->totals;
        resume.goodput_age = now - agent.goodput->at;
    }
    if (agent.link.version() >= control::resize_since) resume.resized = agent.resized;
    if (agent.link.version() >= control::drained_since) resume.drained = agent.drained;
    if (agent.link.version() >= control::recovery_since) resume.kept = agent.kept();
    resume.is_recoverable = has_recoverable(agent);
    if (agent.round) {
        const auto& failures = agent.round->failures;
        resume.assignment = agent.round->assignment;
        resume.spent = agent.round->assignment.restart_count;
        if (agent.link.version() >= control::save_since) resume.save = agent.round->save.point();
        resume.save_report = save_report(agent);
        if (failures.is_reportable()) {
            resume.failure = failures.failure();
            resume.age = failures.age(now);
            resume.kind = failures.kind();
        }
    }
    switch (agent.phase) {
        case AgentPhase::joining:
        case AgentPhase::holding:
            resume.state = !agent.round || agent.is_ready() ? control::NodeState::ready
                                                            : control::NodeState::stopping;
            break;
        case AgentPhase::starting: resume.state = control::NodeState::starting; break;
        case AgentPhase::running: resume.state = control::NodeState::running; break;
        case AgentPhase::succeeded: resume.state = control::NodeState::succeeded; break;
        case AgentPhase::stopping:
        case AgentPhase::done: resume.state = control::NodeState::stopping; break;
    }
    return resume;
}

void greet(AgentStep& step) {
    auto& agent = step.agent;
    // A lost node joins again under a new nonce once its workers have ended (rejoin).
    if (!agent.link.wants_greeting() || agent.is_lost) return;
    if (auto reason = objection_to_server(agent.config.join.nodes, agent.link.version());
        !reason.empty()) {
        notify_link(step, ServerLink::DisconnectRequested{});
        return notify_link(step, ServerLink::ConnectRefused{std::move(reason)});
    }
    if (agent.leaving) agent.leaving->is_reported = false;
    if (agent.preemption.notice) agent.preemption.notice->is_reported = false;
    if (!agent.link.membership()) {
        if (agent.stores.fresh()) notify_link(step, ServerLink::GreetingMade{join_message(agent)});
        return;
    }
    notify_link(step, ServerLink::GreetingMade{resume_message(agent, step.now)});
    if (!agent.round) return;
    agent.round->is_recoverable_reported = has_recoverable(agent);
    agent.round->reported = agent.round->reached;
    agent.round->reported.is_ready = agent.is_ready();
    agent.round->reported_kept = agent.kept();
    agent.round->is_failure_reported = agent.round->failures.is_reportable();
    agent.round->progress.reported.clear();
    agent.round->save.reported.reset();
}

/// Each report replaces the one before; a restarted server has none.
void report_progress(AgentStep& step) {
    auto& agent = step.agent;
    auto& progress = agent.round->progress;
    if (agent.link.version() < control::progress_since || progress.known == progress.reported)
        return;
    progress.reported = progress.known;
    const int round = agent.round->assignment.round;
    step.send(control::Heartbeat{
        0,
        std::nullopt,
        std::nullopt,
        control::NodeProgress{round, progress.known, step.now - progress.changed_at}});
}

void send_started(AgentStep& step) {
    auto& agent = step.agent;
    control::Started started{agent.round->assignment.round, agent.fence.reported_reach()};
    started.is_recoverable = has_recoverable(agent);
    agent.round->is_recoverable_reported = started.is_recoverable;
    step.send(started);
}

/// Sent once it is known which neighbours can be reached, or earlier if a later state must be
/// reported.
void report_started(AgentStep& step) {
    auto& agent = step.agent;
    const bool is_more = agent.phase == AgentPhase::succeeded ||
                         agent.round->failures.has_failure() || agent.round->reached.is_ready;
    if (!agent.fence.is_reach_known() && !is_more) return;
    agent.round->reported.has_started = true;
    agent.fence.report_reach();
    // After this report the server may judge earlier, so the keeper gets the earlier fence first.
    if (agent.fence.is_judged_early()) update_keeper(step);
    send_started(step);
}

/// The first worker that can be held is reported; it is too late when the workers are being
/// stopped.
void report_recoverable(AgentStep& step) {
    auto& agent = step.agent;
    const bool is_news = agent.phase == AgentPhase::running && agent.round->reported.has_started &&
                         !agent.round->is_recoverable_reported && has_recoverable(agent);
    if (is_news) send_started(step);
}

}  // namespace

void report_to_server(AgentStep& step) {
    auto& agent = step.agent;
    greet(step);
    if (!agent.link.is_admitted()) return;
    if (agent.leaving && !agent.leaving->is_reported && !agent.leaving->has_interrupted_server) {
        agent.leaving->is_reported = true;
        step.send(leave_message(agent));
    }
    report_notice(step);
    if (!agent.round || agent.phase == AgentPhase::done) return;
    const auto& failures = agent.round->failures;
    const auto& assignment = agent.round->assignment;
    auto& reported = agent.round->reported;
    if (agent.round->reached.has_started && !reported.has_started) report_started(step);
    report_recoverable(step);
    // This report makes the server stop the other nodes.
    if (failures.is_reportable() && !agent.round->is_failure_reported) {
        agent.round->is_failure_reported = true;
        step.send(control::Failed{
            assignment.round, failures.age(step.now), failures.failure(), failures.kind()});
    }
    report_progress(step);
    // Sent before Succeeded: the ranks may have ended because they had saved.
    report_save(step);
    if (agent.phase == AgentPhase::succeeded && !reported.has_succeeded) {
        reported.has_succeeded = true;
        step.send(control::Succeeded{assignment.round});
    }
    // Ready ends this node's part of the round: a failure that is still being explained is sent
    // first.
    auto kept = agent.kept();
    if (agent.is_ready() && (!reported.is_ready || kept != agent.round->reported_kept)) {
        reported.is_ready = true;
        agent.round->reported_kept = kept;
        // A node that leaves offers no store, but the field requires a port.
        const auto port = agent.stores.fresh().value_or(assignment.master_port);
        step.send(
            control::Ready{assignment.round, port, agent.config.worker.nproc, std::move(kept)});
    }
}

}  // namespace ddprun::agent
