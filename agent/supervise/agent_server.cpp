// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"
#include "agent/supervise/next_step.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/versions.hpp"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

/// The part of `Agent` that talks with the server.
namespace ddprun::agent {
namespace {

/// Why the job cannot be left to a server that speaks this version; empty: it can. A round of a
/// fixed size has whole units under any server.
std::string objection_to_server(const control::NodeRange& nodes, int version) {
    const bool is_fixed = nodes.min == nodes.max;
    if (!nodes.unit || is_fixed || version >= control::shape_since) return {};
    return "--node-unit=" + std::to_string(*nodes.unit) +
           ": the rendezvous server is of an older release, which forms rounds of any size; use "
           "ddprun-rendezvous of this release, or a fixed number of nodes";
}

bool is_result(const std::optional<Ending>& ending) {
    return ending && std::holds_alternative<control::JobResult>(*ending);
}

}  // namespace

// ---- reports to the server ----------------------------------------------------------------------

void Agent::report_to_server(Instant now, Effects& out) {
    greet(now, out);
    if (!link_.is_admitted()) return;
    if (leaving_ && !leaving_->is_reported && !leaving_->has_interrupted_server) {
        leaving_->is_reported = true;
        send(leave(), out);
    }
    report_notice(now, out);
    if (!round_ || phase_ == Phase::done) return;
    const auto& failures = round_->failures;
    const auto& assignment = round_->assignment;
    auto& reported = round_->reported;
    if (round_->reached.has_started && !reported.has_started) report_started(out);
    // The others are stopped because of it.
    if (failures.is_reportable() && !round_->is_failure_reported) {
        round_->is_failure_reported = true;
        send(
            control::Failed{
                assignment.round, failures.age(now), failures.failure(), failures.kind()},
            out);
    }
    report_progress(now, out);
    // Before the end of ranks that have ended because they had saved.
    report_save(out);
    if (phase_ == Phase::succeeded && !reported.has_succeeded) {
        reported.has_succeeded = true;
        send(control::Succeeded{assignment.round}, out);
    }
    // Ready ends this node's part of the round: a failure still being explained goes first.
    if (is_ready() && !reported.is_ready) {
        reported.is_ready = true;
        // A node that leaves has no store to offer; the field requires a port.
        const auto port = stores_.fresh().value_or(assignment.master_port);
        send(control::Ready{assignment.round, port, config_.worker.nproc}, out);
    }
}

control::Leave Agent::leave() const {
    control::Leave leave{leaving_->reason(node_.host), leaving_->signal};
    if (!leaving_->command) return leave;
    // To an older server SIGINT alone ends the job.
    if (link_.version() < control::job_end_since) leave.signal = SIGINT;
    leave.ends_job = link_.version() >= control::job_end_since;
    leave.grace = leave.ends_job ? leaving_->command->grace : std::nullopt;
    return leave;
}

/// Each report replaces the one before; a server that was started again has none.
void Agent::report_progress(Instant now, Effects& out) {
    auto& progress = round_->progress;
    if (link_.version() < control::progress_since || progress.known == progress.reported) return;
    progress.reported = progress.known;
    const int round = round_->assignment.round;
    send(
        control::Heartbeat{
            0,
            std::nullopt,
            std::nullopt,
            control::NodeProgress{round, progress.known, now - progress.changed_at}},
        out);
}

/// Not before it is known which neighbours can be reached, unless there is more to report already.
void Agent::report_started(Effects& out) {
    const bool is_more =
        phase_ == Phase::succeeded || round_->failures.has_failure() || round_->reached.is_ready;
    if (!fence_.is_reach_known() && !is_more) return;
    round_->reported.has_started = true;
    fence_.report_reach();
    // From this report on the server may judge earlier: the keeper gets the earlier fence before.
    if (fence_.is_judged_early()) update_keeper(out);
    send(control::Started{round_->assignment.round, fence_.reported_reach()}, out);
}

void Agent::greet(Instant now, Effects& out) {
    // A lost node comes back under a new nonce when its workers are gone (rejoin).
    if (!link_.wants_greeting() || is_lost_) return;
    if (auto reason = objection_to_server(config_.join.nodes, link_.version()); !reason.empty()) {
        notify_link(ServerLink::DisconnectRequested{}, now, out);
        return notify_link(ServerLink::ConnectRefused{std::move(reason)}, now, out);
    }
    if (leaving_) leaving_->is_reported = false;
    if (notice_) notice_->is_reported = false;
    if (!link_.membership()) {
        if (stores_.fresh()) notify_link(ServerLink::GreetingMade{join()}, now, out);
        return;
    }
    notify_link(ServerLink::GreetingMade{resume(now)}, now, out);
    if (!round_) return;
    round_->reported = round_->reached;
    round_->reported.is_ready = is_ready();
    round_->is_failure_reported = round_->failures.is_reportable();
    round_->progress.reported.clear();
    round_->save.reported.reset();
}

control::Join Agent::join() const {
    auto join = config_.join;
    join.node = node_;
    join.nproc = config_.worker.nproc;
    join.role = config_.worker.role;
    join.socket_addr = link_.socket_addr();
    join.store_port = stores_.offered();
    join.peer_port = peer_port_;
    join.versions = control::own_versions();
    join.epoch = promise_.newest_epoch();
    join.is_hosting = is_hosting_;
    if (link_.version() < control::shape_since) {
        join.nodes.unit.reset();
        join.node.topology.clear();
    }
    return join;
}

control::Resume Agent::resume(Instant now) const {
    control::Resume resume;
    resume.join = join();
    resume.incarnation = link_.membership()->welcome.incarnation;
    resume.token = link_.membership()->welcome.token;
    resume.reached = fence_.reported_reach();
    if (goodput_ && goodput_->incarnation == resume.incarnation &&
        link_.version() >= control::goodput_since) {
        resume.goodput = goodput_->totals;
        resume.goodput_age = now - goodput_->at;
    }
    if (round_) {
        const auto& failures = round_->failures;
        resume.assignment = round_->assignment;
        resume.spent = round_->assignment.restart_count;
        if (link_.version() >= control::save_since) resume.save = round_->save.point();
        resume.save_report = save_report();
        if (failures.is_reportable()) {
            resume.failure = failures.failure();
            resume.age = failures.age(now);
            resume.kind = failures.kind();
        }
    }
    switch (phase_) {
        case Phase::joining:
            resume.state =
                !round_ || is_ready() ? control::NodeState::ready : control::NodeState::stopping;
            break;
        case Phase::starting: resume.state = control::NodeState::starting; break;
        case Phase::running: resume.state = control::NodeState::running; break;
        case Phase::succeeded: resume.state = control::NodeState::succeeded; break;
        case Phase::stopping:
        case Phase::done: resume.state = control::NodeState::stopping; break;
    }
    return resume;
}

// ---- waits in the round's store -----------------------------------------------------------------

void Agent::on_store_waited(StoreWaited waited, Effects& out) {
    // A store that drains, or one whose round has not begun.
    const bool is_of_round = round_ && round_->assignment.group_rank == 0 &&
                             round_->assignment.master_port == waited.port && has_workers();
    if (!is_of_round || !link_.is_admitted()) return;
    const int round = round_->assignment.round;
    const bool is_over = waited.wait.client_count == 0;
    waited.wait.round = round;
    send(control::Heartbeat{0, std::move(waited.wait)}, out);
    // Not asked by the server: a worker whose wait has timed out may be gone by then.
    if (!is_over) find_store_clients(round, out);
}

void Agent::find_store_clients(int round, Effects& out) {
    // Of workers that are being stopped nothing can be learned.
    if (!is_current(round) || !has_workers() || phase_ == Phase::stopping)
        return note_stale("question about round " + std::to_string(round), out);
    const auto& workers = *group();
    out.push_back(
        FindStoreClients{round, round_->assignment.master_port, workers.pids(), workers.ended()});
}

void Agent::on_store_clients_found(control::StoreClients clients, Effects& out) {
    if (!is_current(clients.round) || !has_workers() || !link_.is_admitted()) return;
    send(control::Heartbeat{0, std::nullopt, std::move(clients)}, out);
}

void Agent::send(control::AgentMessage message, Effects& out) {
    out.push_back(Send{link_.current(), std::move(message)});
}

// ---- messages of the server ---------------------------------------------------------------------

void Agent::on_message(control::ServerMessage message, Instant now, Effects& out) {
    std::visit(
        Overloaded{
            [&](const control::Hello&) { note_stale("hello", out); },
            [&](const control::Lost& lost) { on_lost(lost, now, out); },
            [&](control::Assignment& next) { on_assignment(std::move(next), now, out); },
            [&](const control::Stop& stop) { on_stop(stop, now, out); },
            [&](control::Standby& standby) {
                if (round_) round_->note_at.reset();
                standby_reason_ = standby.reason;
                if (standby.missing > 0)
                    out.push_back(
                        NoteMissing{std::move(standby.reason), next_step_for_missing(config_)});
                else
                    out.push_back(NoteStandby{std::move(standby.reason)});
            },
            [&](const control::Ask& ask) {
                const auto answer = fence_.neighbours().on_asked_about(ask, now);
                if (!answer) return note_stale("ask", out);
                send(*answer, out);
            },
            [&](const control::SaveAt& order) { on_save_at(order, now, out); },
            [&](const control::NoticeOver& over) { on_notice_over(over, now, out); },
            [&](const control::DrainOrder& order) { on_drain_order(order, now, out); },
            [&](control::HangFound& found) { on_hang_found(std::move(found), now, out); },
            [&](control::DrainAnswer& answer) {
                out.push_back(AnswerCommand{answer.id, answer.is_done, std::move(answer.text)});
            },
            [&](control::JobResult& result) { on_result(std::move(result), now, out); },
            [&](control::ProtocolError& error) {
                end(
                    NodeRefused{
                        "the rendezvous server did not accept what this node said: " +
                        error.reason},
                    now,
                    out);
            },
            [&](control::Welcome& welcome) {
                if (follows(welcome.epoch, now, out)) notify_link(std::move(welcome), now, out);
            },
            [&](control::Refused& refused) { notify_link(std::move(refused), now, out); },
            [&](control::Resumed& resumed) {
                if (follows(resumed.epoch, now, out)) notify_link(resumed, now, out);
            },
            [&](control::HeartbeatAck& ack) {
                if (ack.goodput) goodput_ = KeptGoodput{incarnation(), *ack.goodput, now};
                notify_link(ack, now, out);
                if (ack.clients_of) find_store_clients(*ack.clients_of, out);
            },
        },
        message);
}

/// Everything on a connection is said under the epoch of its first answer. That of a leader which
/// another one has followed is obeyed no more: the connection is closed.
bool Agent::follows(std::uint64_t epoch, Instant now, Effects& out) {
    if (promise_.follow(epoch)) return true;
    note_stale(
        "leader of epoch " + std::to_string(epoch) + ", after one of epoch " +
            std::to_string(promise_.newest_epoch()),
        out);
    notify_link(ServerLink::ReconnectRequested{}, now, out);
    return false;
}

void Agent::on_assignment(control::Assignment next, Instant now, Effects& out) {
    // Workers were given this address, however the first node is reached otherwise. To a
    // members-only store no worker has an address but its own node's.
    if (config_.rendezvous.is_static && !config_.has_members_store()) {
        next.master_addr = config_.rendezvous.endpoint.host;
        next.master_port = config_.rendezvous.endpoint.port;
    }
    // After a resume the server repeats what holds.
    if (round_ && next == round_->assignment) return;
    const bool is_old = round_ && next.round <= round_->assignment.round;
    const bool is_free = !is_old && !has_workers() && link_.is_admitted();
    // The server began this round before the request to end the job reached it. It waits for every
    // node to stop.
    if (is_free && leaving_ && is_hosting_ && !is_result(ending_))
        return begin_round_without_workers(std::move(next), out);
    if (!is_free || leaving_ || ending_)
        return note_stale("assignment of round " + std::to_string(next.round), out);
    // Delayed beyond the lease: the server may have given this node's ranks away since. The answer
    // to a resume repeats what still holds.
    if (!fence_.is_valid(link_.membership(), now)) {
        note_stale("assignment of round " + std::to_string(next.round) + " after the lease", out);
        return notify_link(ServerLink::ReconnectRequested{}, now, out);
    }
    begin_round(std::move(next), now, out);
}

void Agent::on_stop(const control::Stop& stop, Instant now, Effects& out) {
    const auto grace = std::min(stop.grace, grace_left(now));
    if (is_current(stop.round)) {
        const auto& worker = stop.root_cause.worker;
        notify_failures(FailureReport::StopReceived{worker && worker->is_secondary}, now, out);
        round_->stop_reason = stop.reason;
        // The job ends: its result says how, and nothing is left to be saved.
        const bool ends_job = stop.root_cause.kind == control::Cause::Kind::cancelled;
        if (ends_job && !is_ending_as_saved()) notice_.reset();
    }
    if (!is_current(stop.round) || !has_workers())
        return note_stale("stop of round " + std::to_string(stop.round), out);
    if (!is_noted(stop)) out.push_back(NoteStopping{stop.round, stop.reason});
    if (stop.how == SIGKILL)
        kill_workers(now, out);
    else
        stop_workers({stop.how, grace, signal_after(stop.root_cause)}, now, out);
}

/// Another node of the step was signalled: the scheduler's signal comes to the workers here too.
Duration Agent::signal_after(const control::Cause& cause) const {
    const bool comes_too = cause.signal != 0 && config_.is_signalled_as_a_whole && !leaving_;
    return comes_too ? limits::scheduler_signal_window : Duration{};
}

/// This node's log has the cause already: the end of its own worker, or its own Ctrl-C.
bool Agent::is_noted(const control::Stop& stop) const {
    const auto& cause = stop.root_cause;
    if (leaving_ && leaving_->signal == SIGINT && cause.signal == SIGINT) return true;
    // The command is in the log.
    if (leaving_ && leaving_->command && cause.reason == leaving_->command->reason) return true;
    const auto& failures = round_->failures;
    return cause.worker && failures.is_reportable() &&
           failures.failure().rank == cause.worker->rank;
}

void Agent::on_result(control::JobResult result, Instant now, Effects& out) {
    if (is_result(ending_)) return note_stale("result", out);
    const auto& cause = result.root_cause;
    const int signal = cause && cause->signal != 0 ? cause->signal : SIGTERM;
    const auto after = cause ? signal_after(*cause) : Duration{};
    ending_ = std::move(result);
    stop_workers({signal, config_.join.settings.grace, after}, now, out);
}

void Agent::on_lost(const control::Lost& lost, Instant now, Effects& out) {
    is_lost_ = true;
    notify_link(ServerLink::DisconnectRequested{}, now, out);
    out.push_back(NoteStopping{round_ ? round_->assignment.round : -1, lost.reason});
    kill_workers(now, out);
}

void Agent::note_stale(std::string what, Effects& out) {
    ++stale_count_;
    out.push_back(NoteStale{std::move(what)});
}

}  // namespace ddprun::agent
