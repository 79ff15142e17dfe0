// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"

#include "agent/plan/store_names.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <csignal>
#include <random>
#include <set>
#include <utility>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

// Attempts come close together while workers depend on it, and at the start of a job, when the
// other side is often about to appear.
constexpr Duration shortest_eager_pause = 100ms;
constexpr Duration longest_eager_pause = 200ms;
constexpr Duration eager_for = 30s;
constexpr Duration longest_pause = 5s;
constexpr Duration first_note_after = 3s;
/// A round that needs nobody new begins long before.
constexpr Duration next_round_note_after = 2s;
constexpr Duration note_interval = 10s;
constexpr std::size_t silent_after_unanswered = 3;
/// Of a server that is silent for long only the latest heartbeats are remembered.
constexpr std::size_t most_unanswered = 100;
/// A disk that does not answer must not keep a failure secret.
constexpr Duration explain_timeout = 5s;
/// A node that leaves alone gets no result: it waits only for one that is already on its way.
constexpr Duration last_words_timeout = 1s;

bool is_stop_signal(int signal) {
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

std::string whole_seconds(Duration length) {
    return seconds_text(std::chrono::floor<std::chrono::seconds>(length));
}

}  // namespace

Agent::Agent(AgentConfig config, control::Node node, std::uint16_t peer_port, Random& random)
    : config_(std::move(config)),
      node_(std::move(node)),
      peer_port_(peer_port),
      random_(random),
      backoff_(longest_eager_pause, longest_pause),
      neighbours_(node_.nonce) {}

void Agent::handle(Event event, Instant now, std::vector<Effect>& out) {
    if (phase_ == Phase::done) return;
    std::visit(
        Overloaded{
            [&](Began) {
                unreachable_since_ = now;
                note_at_ = now + first_note_after;
                is_opening_store_ = true;
                out.push_back(OpenStore{});
                connect(now, out);
            },
            [&](const StoreOpened& opened) {
                require(is_opening_store_ && !fresh_store_, "a store is opened when asked for");
                is_opening_store_ = false;
                fresh_store_ = opened.port;
                greet(now, out);
                if (phase_ == Phase::joining && assignment_) facts_.is_ready = true;
            },
            [&](StoreFailed& failed) {
                is_opening_store_ = false;
                end({control::Outcome::failed,
                     exit_codes::internal_error,
                     std::move(failed.reason)},
                    now,
                    out);
            },
            [&](HostingStarted) { is_hosting_ = true; },
            [&](const LinkOpened& opened) { on_link_opened(opened, now, out); },
            [&](const LinkClosed& closed) { on_link_closed(closed, now, out); },
            [&](ConnectRefused& refused) {
                attempt_.reset();
                end({control::Outcome::failed, exit_codes::refused, std::move(refused.reason)},
                    now,
                    out);
            },
            [&](Received& received) {
                // What a replaced connection still delivers means nothing.
                if (received.link == link_) on_message(std::move(received.message), now, out);
            },
            [&](const WorkerSpawned& spawned) {
                tell_group(WorkerGroup::Spawned{spawned.local_rank, spawned.pid}, now, out);
            },
            [&](WorkerExited& exited) { on_worker_exited(std::move(exited), now, out); },
            [&](FailureExplained& explained) { on_explained(std::move(explained), now, out); },
            [&](const RemainsCounted& counted) {
                if (group_) tell_group(WorkerGroup::RemainsCounted{counted.count}, now, out);
            },
            [&](StoreChecked& checked) { on_store_checked(std::move(checked), now, out); },
            [&](const NoticeGiven& given) {
                if (notice_until_ && assignment_->round == given.round)
                    stop_workers(SIGTERM, config_.settings.grace, now, out);
            },
            [&](const PeerAsked& asked) {
                out.push_back(AnswerPeer{
                    asked.caller, neighbours_.answer(asked.vouch, has_standing(now), now)});
            },
            [&](const PeerAnswered& answered) { on_peer_answered(answered, now, out); },
            [&](const Signalled& signalled) { on_signal(signalled.signal, now, out); },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
    if (phase_ != Phase::done) {
        if (!death_) clean_up_round(out);
        tell_server(now, out);
        update_fence(out);
    }
    check();
}

// ---- connection to the server -------------------------------------------------------------------

void Agent::connect(Instant now, std::vector<Effect>& out) {
    connect_at_.reset();
    attempt_ = ++last_link_;
    const auto unanswered_for =
        unreachable_since_ ? now - std::max(*unreachable_since_, told_to_wait_at_) : Duration{};
    out.push_back(Connect{*attempt_, !was_welcomed_, unanswered_for});
}

void Agent::on_link_opened(const LinkOpened& opened, Instant now, std::vector<Effect>& out) {
    if (opened.link != attempt_) return;
    attempt_.reset();
    if (link_) out.push_back(CloseLink{*link_});
    link_ = opened.link;
    socket_addr_ = opened.socket_addr;
    is_admitted_ = false;
    greeted_at_.reset();
    heartbeat_at_.reset();
    unanswered_.clear();
    refused_since_.reset();
    greet(now, out);
}

void Agent::on_link_closed(const LinkClosed& closed, Instant now, std::vector<Effect>& out) {
    if (closed.link == attempt_) return on_attempt_failed(closed, now, out);
    if (closed.link != link_) return;
    const bool was_admitted = is_admitted_;
    if (greeted_at_ && !welcome_) {
        discard_fresh_store(out);
        open_store(out);
    }
    link_.reset();
    is_admitted_ = false;
    greeted_at_.reset();
    heartbeat_at_.reset();
    unanswered_.clear();
    refusal_.reset();
    last_trouble_ = closed.trouble;
    last_trouble_reason_ = closed.reason;
    // Who leaves and has nothing left to stop was waiting for a result that does not come.
    if (result_deadline_) return finish(out);
    if (!unreachable_since_) unreachable_since_ = now;
    if (!note_at_) note_at_ = now + first_note_after;
    if (was_admitted) {
        is_known_lost_ = true;
        out.push_back(NoteServerLost{closed.reason});
    }
    if (attempt_) return;
    if (was_admitted)
        connect(now, out);
    else
        connect_at_ = now + pause_before_next_attempt(now);
}

void Agent::on_attempt_failed(const LinkClosed& closed, Instant now, std::vector<Effect>& out) {
    attempt_.reset();
    connect_at_ = now + pause_before_next_attempt(now);
    if (link_) return;
    refusal_.reset();
    last_trouble_ = closed.trouble;
    last_trouble_reason_ = closed.reason;
    // Only a server that was inside a `ddprun` is known not to come back.
    if (closed.trouble != Trouble::refused || !welcome_ || !welcome_->hosted) {
        refused_since_.reset();
        return;
    }
    if (!refused_since_) refused_since_ = now;
    if (now - *refused_since_ < limits::refused_is_gone_after) return;
    end(server_gone("the ddprun that hosts the rendezvous is gone"), now, out);
}

/// The server may have named it to others in a round of which this node never heard.
void Agent::discard_fresh_store(std::vector<Effect>& out) {
    if (fresh_store_) out.push_back(CloseStore{*fresh_store_});
    fresh_store_.reset();
}

void Agent::open_store(std::vector<Effect>& out) {
    if (fresh_store_ || is_opening_store_) return;
    is_opening_store_ = true;
    out.push_back(OpenStore{});
}

Agent::Ending Agent::server_gone(const std::string& what) const {
    auto reason = what;
    if (!last_trouble_reason_.empty()) reason += " (" + last_trouble_reason_ + ")";
    return {control::Outcome::failed, exit_codes::server_gone, std::move(reason)};
}

Duration Agent::pause_before_next_attempt(Instant now) {
    const bool is_early = !unreachable_since_ || now - *unreachable_since_ < eager_for;
    if (!has_workers() && !is_early) return backoff_.next(random_);
    std::uniform_int_distribution<Duration::rep> pause(
        shortest_eager_pause.count(), longest_eager_pause.count());
    return Duration{pause(random_)};
}

void Agent::greet(Instant now, std::vector<Effect>& out) {
    if (!link_ || greeted_at_) return;
    // A lost node comes back under a new name when its workers are gone (rejoin).
    if (is_lost_) return;
    if (!welcome_) {
        if (!fresh_store_) return;
        send(join(), out);
        told_ = {};
        told_.is_ready = true;
    } else {
        send(resume(now), out);
        told_ = facts_;
        told_.is_leaving = false;
        told_.has_failed = facts_.has_failed && !notice_until_;
        told_.is_ready = facts_.is_ready && !death_;
    }
    greeted_at_ = now;
}

void Agent::on_admitted(std::vector<Effect>& out, Instant now) {
    is_admitted_ = true;
    acknowledged_at_ = *greeted_at_;
    unreachable_since_.reset();
    refused_since_.reset();
    refusal_.reset();
    note_at_.reset();
    backoff_.reset();
    if (has_lease()) heartbeat_at_ = now + limits::heartbeat_interval;
    if (!is_known_lost_) return;
    is_known_lost_ = false;
    out.push_back(NoteServerBack{});
}

void Agent::send(control::AgentMessage message, std::vector<Effect>& out) {
    require(link_.has_value(), "messages go to an open link");
    out.push_back(Send{*link_, std::move(message)});
}

void Agent::drop_links(std::vector<Effect>& out) {
    if (link_) out.push_back(CloseLink{*link_});
    if (attempt_) out.push_back(CloseLink{*attempt_});
    link_.reset();
    attempt_.reset();
    connect_at_.reset();
    is_admitted_ = false;
    greeted_at_.reset();
    heartbeat_at_.reset();
    unanswered_.clear();
}

control::Join Agent::join() const {
    control::Join join;
    join.run_id = config_.run_id;
    join.incarnation = config_.incarnation;
    join.node = node_;
    join.nodes = config_.nodes;
    join.nproc = config_.worker.nproc;
    join.role = config_.worker.role;
    join.node_rank = config_.node_rank;
    join.addr = config_.local_addr;
    join.socket_addr = socket_addr_;
    join.store_port = fresh_store_ ? *fresh_store_ : used_store_.value_or(0);
    join.peer_port = peer_port_;
    join.max_restarts = config_.max_restarts;
    join.settings = config_.settings;
    return join;
}

control::Resume Agent::resume(Instant now) const {
    control::Resume resume;
    resume.join = join();
    resume.incarnation = welcome_->incarnation;
    resume.assignment = assignment_;
    resume.reached = told_reach_;
    resume.spent = assignment_ ? assignment_->restart_count : 0;
    if (failure_ && !notice_until_) {
        resume.failure = failure_;
        resume.age = now - failed_at_;
        resume.kind = failure_kind_;
    }
    switch (phase_) {
        case Phase::joining:
            // As in tell_server: a failure still being explained is told before ready.
            resume.state = (facts_.is_ready && !death_) || !assignment_
                               ? control::NodeState::ready
                               : control::NodeState::stopping;
            break;
        case Phase::starting: resume.state = control::NodeState::starting; break;
        case Phase::running: resume.state = control::NodeState::running; break;
        case Phase::succeeded: resume.state = control::NodeState::succeeded; break;
        case Phase::stopping:
        case Phase::done: resume.state = control::NodeState::stopping; break;
    }
    return resume;
}

void Agent::tell_server(Instant now, std::vector<Effect>& out) {
    if (!is_admitted_) return;
    if (facts_.is_leaving && !told_.is_leaving) {
        told_.is_leaving = true;
        send(control::Leave{leave_reason(), *leave_signal_}, out);
    }
    if (!assignment_) return;
    const int round = assignment_->round;
    if (facts_.has_started && !told_.has_started) tell_started(out);
    // The others are stopped because of it.
    if (facts_.has_failed && !told_.has_failed && !notice_until_) {
        told_.has_failed = true;
        send(control::Failed{round, now - failed_at_, *failure_, failure_kind_}, out);
    }
    if (phase_ == Phase::succeeded && !told_.has_succeeded) {
        told_.has_succeeded = true;
        send(control::Succeeded{round}, out);
    }
    // Ready ends this node's part of the round: a failure still being explained goes first.
    if (facts_.is_ready && !told_.is_ready && !death_) {
        told_.is_ready = true;
        // Who leaves has no store to offer; the field still wants a port.
        const auto port = fresh_store_.value_or(assignment_->master_port);
        send(control::Ready{round, port, config_.worker.nproc}, out);
    }
}

void Agent::heartbeat(Instant now, std::vector<Effect>& out) {
    heartbeat_at_ = now + limits::heartbeat_interval;
    send(control::Heartbeat{++last_seq_}, out);
    unanswered_.push_back({last_seq_, now});
    if (unanswered_.size() > most_unanswered) unanswered_.pop_front();
    if (unanswered_.size() < silent_after_unanswered) return;
    // An open connection on which nothing is heard is none: patience counts.
    if (!unreachable_since_) {
        unreachable_since_ = acknowledged_at_;
        last_trouble_ = Trouble::no_answer;
        last_trouble_reason_ = "the connection is silent";
    }
    if (!note_at_) note_at_ = now + first_note_after;
    if (!attempt_ && !connect_at_) connect(now, out);
}

void Agent::on_heartbeat_ack(const control::HeartbeatAck& ack, std::vector<Effect>& out) {
    while (!unanswered_.empty() && unanswered_.front().seq <= ack.seq) {
        acknowledged_at_ = std::max(acknowledged_at_, unanswered_.front().at);
        unanswered_.pop_front();
    }
    if (unanswered_.size() >= silent_after_unanswered || !is_admitted_) return;
    unreachable_since_.reset();
    note_at_.reset();
    // It speaks again: the second connection beside it is not needed.
    if (attempt_) out.push_back(CloseLink{*attempt_});
    attempt_.reset();
    connect_at_.reset();
}

// ---- messages -----------------------------------------------------------------------------------

void Agent::on_message(control::ServerMessage message, Instant now, std::vector<Effect>& out) {
    std::visit(
        Overloaded{
            [&](const control::Hello&) { note_stale("hello", out); },
            [&](control::Welcome& welcome) {
                if (!greeted_at_ || is_admitted_) return note_stale("welcome", out);
                welcome_ = std::move(welcome);
                was_welcomed_ = true;
                on_admitted(out, now);
            },
            [&](const control::Refused& refused) { on_refused(refused, now, out); },
            [&](const control::Resumed&) {
                if (!greeted_at_ || is_admitted_ || !welcome_) return note_stale("resumed", out);
                on_admitted(out, now);
            },
            [&](const control::Lost& lost) { on_lost(lost, now, out); },
            [&](control::Assignment& next) { on_assignment(std::move(next), now, out); },
            [&](const control::Stop& stop) { on_stop(stop, now, out); },
            [&](control::Standby& standby) {
                next_round_note_at_.reset();
                out.push_back(NoteStandby{std::move(standby.reason)});
            },
            [&](const control::HeartbeatAck& ack) { on_heartbeat_ack(ack, out); },
            [&](const control::Ask& ask) {
                const auto answer = neighbours_.on_asked_about(ask, now);
                if (!answer) return note_stale("ask", out);
                send(*answer, out);
            },
            [&](control::JobResult& result) {
                if (result_) return note_stale("result", out);
                result_ = std::move(result);
                const auto& cause = result_->first_cause;
                stop_workers(
                    cause && cause->signal != 0 ? cause->signal : SIGTERM,
                    config_.settings.grace,
                    now,
                    out);
            },
            [&](control::ProtocolError& error) {
                end({control::Outcome::failed,
                     exit_codes::refused,
                     "the rendezvous server did not accept what this node said: " + error.reason},
                    now,
                    out);
            },
        },
        message);
}

void Agent::on_assignment(control::Assignment next, Instant now, std::vector<Effect>& out) {
    // Workers were promised this address, however the first node is reached otherwise.
    if (config_.rendezvous.is_static) {
        next.master_addr = config_.rendezvous.endpoint.host;
        next.master_port = config_.rendezvous.endpoint.port;
    }
    // After a resume the server repeats what holds.
    if (assignment_ && next == *assignment_) return;
    const bool is_old = assignment_ && next.round <= assignment_->round;
    // The server that is to end the job had begun this round before it heard of it. It waits for
    // everybody to stop.
    if (!is_old && !has_workers() && leave_signal_ && is_hosting_ && !result_ && is_admitted_) {
        assignment_ = std::move(next);
        facts_ = {};
        told_ = {};
        facts_.is_ready = true;
        return;
    }
    if (is_old || has_workers() || leave_signal_ || ending_ || result_ || !is_admitted_)
        return note_stale("assignment of round " + std::to_string(next.round), out);

    if (used_store_) out.push_back(CloseStore{*used_store_});
    used_store_.reset();
    assignment_ = std::move(next);
    facts_ = {};
    told_ = {};
    death_.reset();
    failure_.reset();
    failure_kind_.reset();
    first_consequence_.reset();
    explained_count_ = 0;
    fallen_.clear();
    stopped_.clear();
    stop_reason_.clear();
    is_stop_for_consequence_ = false;
    next_round_note_at_.reset();
    phase_ = Phase::starting;
    group_.emplace(config_.worker.nproc);
    if (assignment_->group_rank == 0) {
        used_store_ = std::exchange(fresh_store_, std::nullopt);
        if (!config_.shares_store && used_store_) {
            // Worker rank 0 binds this port itself.
            out.push_back(CloseStore{*used_store_});
            used_store_.reset();
        }
    }
    out.push_back(SpawnWorkers{*assignment_, welcome_->incarnation, node_addr()});
    if (config_.shares_store)
        out.push_back(
            CheckStore{assignment_->round, {assignment_->master_addr, assignment_->master_port}});
    meet_neighbours(now, out);
}

std::string Agent::node_addr() const {
    if (!config_.local_addr.empty()) return config_.local_addr;
    const auto own_end = parse_endpoint(socket_addr_, 0);
    return own_end ? own_end->host : std::string{};
}

void Agent::on_stop(const control::Stop& stop, Instant now, std::vector<Effect>& out) {
    if (assignment_ && stop.round == assignment_->round) {
        const auto& worker = stop.first_cause.worker;
        is_stop_for_consequence_ = worker && worker->is_consequence;
        stop_reason_ = stop.reason;
    }
    if (!assignment_ || stop.round != assignment_->round || !has_workers())
        return note_stale("stop of round " + std::to_string(stop.round), out);
    out.push_back(NoteStopping{stop.round, stop.reason});
    if (stop.how == SIGKILL)
        kill_workers(now, out);
    else
        stop_workers(stop.how, stop.grace, now, out);
}

void Agent::on_refused(const control::Refused& refused, Instant now, std::vector<Effect>& out) {
    if (!refused.retry)
        return end({control::Outcome::failed, exit_codes::refused, refused.reason}, now, out);
    drop_links(out);
    refusal_ = refused.reason;
    told_to_wait_at_ = now;
    if (!unreachable_since_) unreachable_since_ = now;
    connect_at_ = now + *refused.retry;
    out.push_back(NoteStandby{refused.reason});
}

void Agent::on_lost(const control::Lost& lost, Instant now, std::vector<Effect>& out) {
    is_lost_ = true;
    drop_links(out);
    out.push_back(NoteStopping{assignment_ ? assignment_->round : -1, lost.reason});
    if (has_workers())
        kill_workers(now, out);
    else
        after_group(now, out);
}

void Agent::note_stale(std::string what, std::vector<Effect>& out) {
    ++stale_count_;
    out.push_back(NoteStale{std::move(what)});
}

// ---- workers ------------------------------------------------------------------------------------

void Agent::tell_group(WorkerGroup::Event event, Instant now, std::vector<Effect>& out) {
    require(group_.has_value(), "workers belong to a group");
    std::vector<WorkerGroup::Effect> asked;
    group_->handle(std::move(event), now, asked);
    for (auto& effect : asked) {
        // Nothing follows Finish.
        if (phase_ == Phase::done) return;
        std::visit(
            Overloaded{
                [&](WorkerGroup::Started) {
                    phase_ = Phase::running;
                    facts_.has_started = true;
                },
                [&](WorkerGroup::Failed failed) { on_worker_failed(failed.local_rank, now, out); },
                [&](WorkerGroup::Succeeded) {
                    phase_ = Phase::succeeded;
                    facts_.has_succeeded = true;
                },
                [&](WorkerGroup::FoundStuck& stuck) {
                    out.push_back(NoteStuck{std::move(stuck.local_ranks), stuck.remains});
                    if (result_ || ending_ || leave_signal_) finish(out);
                },
                [&](WorkerGroup::Ended) { after_group(now, out); },
                [&](auto& order) { out.push_back(std::move(order)); },
            },
            effect);
    }
}

void Agent::on_worker_exited(WorkerExited exited, Instant now, std::vector<Effect>& out) {
    const bool was_stopping = phase_ == Phase::stopping;
    const auto exit = exited.exit;
    bool is_late_crash = false;
    if (!exit.is_success()) {
        const bool is_our_doing =
            was_stopping &&
            (exit.signal() == stop_signal_ || (exit.signal() == SIGKILL && group_->has_killed()));
        const bool has_not_run = std::holds_alternative<WorkerExit::NotExecuted>(exit.how()) ||
                                 std::holds_alternative<WorkerExit::NotStarted>(exit.how());
        auto& those = is_our_doing || (was_stopping && has_not_run) ? stopped_ : fallen_;
        // A crash takes its time: what died of it may have ended, and have had all stopped, before.
        const bool is_culprit_unknown =
            failure_ ? failure_->is_consequence : is_stop_for_consequence_;
        is_late_crash = was_stopping && is_culprit_unknown && !is_our_doing && exit.signal() &&
                        !is_stop_signal(*exit.signal());
        those.push_back(
            {rank_of(exited.local_rank),
             exited.local_rank,
             group_->worker(exited.local_rank).pid(),
             to_worker_end(exit),
             node_.host});
    }
    tell_group(WorkerGroup::Exited{exited.local_rank, std::move(exited.exit)}, now, out);
    if (is_late_crash) on_worker_failed(exited.local_rank, now, out);
}

void Agent::on_worker_failed(int local_rank, Instant now, std::vector<Effect>& out) {
    // The first one decides, unless it says that it died of another's death; the others are in
    // `fallen_`.
    if (death_ || (failure_ && !failure_->is_consequence)) return;
    failed_at_ = now;
    const auto signal = group_->worker(local_rank).exit()->signal();
    if (signal && is_stop_signal(*signal)) {
        // Perhaps a scheduler that signals everybody, in any order: wait a moment for our own.
        death_ = Death{local_rank, now + limits::settle_window, std::nullopt};
        return;
    }
    explain(local_rank, now, out);
}

void Agent::explain(int local_rank, Instant now, std::vector<Effect>& out) {
    const auto& exit = *group_->worker(local_rank).exit();
    if (std::holds_alternative<WorkerExit::NotExecuted>(exit.how())) {
        failure_kind_ = control::Cause::Kind::not_executable;
        auto failure = failure_of(local_rank);
        failure.why = cause_in_words(failure.end, {}).sentence;
        report_failure(std::move(failure));
    } else {
        death_ = Death{local_rank, std::nullopt, now + explain_timeout};
        out.push_back(ExplainFailure{assignment_->round, local_rank});
    }
    give_notice_and_stop(rank_of(local_rank), now, out);
}

/// Who is signalled may still want to say whose death it was.
void Agent::give_notice_and_stop(int rank, Instant now, std::vector<Effect>& out) {
    const bool has_readers = config_.shares_store && assignment_->group_world_size > 1;
    const bool is_stopping = phase_ == Phase::stopping;
    if (!has_readers || is_stopping) return stop_workers(SIGTERM, config_.settings.grace, now, out);
    notice_until_ = now + limits::death_notice_timeout;
    out.push_back(GiveNotice{
        assignment_->round,
        {{assignment_->master_addr, assignment_->master_port},
         store_names::deaths(welcome_->incarnation, assignment_->round, assignment_->restart_count),
         {rank}}});
}

void Agent::on_explained(FailureExplained explained, Instant now, std::vector<Effect>& out) {
    const bool is_awaited = death_ && death_->explain_until && assignment_ &&
                            assignment_->round == explained.round &&
                            death_->local_rank == explained.local_rank;
    if (!is_awaited) return;
    auto failure = failure_of(explained.local_rank);
    if (!explained.message.empty())
        failure.message = std::move(explained.message);
    else if (!explained.cause.brief.empty())
        failure.message += " (" + explained.cause.brief + ")";
    failure.details = std::move(explained.details);
    failure.is_consequence = explained.is_consequence;
    failure.why = std::move(explained.cause.sentence);
    failure.error_file = std::move(explained.error_file);
    failure.log_file = std::move(explained.log_file);
    failure.unix_time = explained.unix_time;
    failure.own_words = explained.own_words;
    if (!failure.is_consequence) return report_failure(std::move(failure));

    // It says that it died of another's death: perhaps of one of its neighbours on this node.
    if (!first_consequence_) first_consequence_ = std::move(failure);
    ++explained_count_;
    if (explained_count_ >= fallen_.size()) return report_failure(*first_consequence_);
    const int next = fallen_[explained_count_].local_rank;
    death_ = Death{next, std::nullopt, now + explain_timeout};
    out.push_back(ExplainFailure{assignment_->round, next});
}

void Agent::report_failure(control::WorkerFailure failure) {
    const bool is_news = !failure_ || !failure.is_consequence;
    failure_ = std::move(failure);
    facts_.has_failed = true;
    if (is_news) told_.has_failed = false;
    death_.reset();
}

void Agent::on_store_checked(StoreChecked checked, Instant now, std::vector<Effect>& out) {
    const bool is_current = assignment_ && assignment_->round == checked.round;
    const bool is_of_use = phase_ == Phase::starting || phase_ == Phase::running;
    if (!is_current || !is_of_use || checked.failure.empty() || death_ || failure_) return;
    control::WorkerFailure failure;
    failure.rank = assignment_->rank_base;
    failure.message = std::move(checked.failure);
    failed_at_ = now;
    failure_kind_ = control::Cause::Kind::store_unreachable;
    report_failure(std::move(failure));
    stop_workers(SIGTERM, config_.settings.grace, now, out);
}

void Agent::stop_workers(int signal, Duration grace, Instant now, std::vector<Effect>& out) {
    notice_until_.reset();
    if (!has_workers()) return after_group(now, out);
    if (phase_ != Phase::stopping) stop_signal_ = signal;
    phase_ = Phase::stopping;
    // The next round must not wait for its store; a node that ends has no next round.
    if (!fresh_store_ && !is_opening_store_ && !result_ && !ending_ && !leave_signal_) {
        is_opening_store_ = true;
        out.push_back(OpenStore{});
    }
    tell_group(WorkerGroup::StopRequested{signal, grace}, now, out);
}

void Agent::kill_workers(Instant now, std::vector<Effect>& out) {
    notice_until_.reset();
    if (!has_workers()) return after_group(now, out);
    if (phase_ != Phase::stopping) stop_signal_ = SIGKILL;
    phase_ = Phase::stopping;
    tell_group(WorkerGroup::KillRequested{}, now, out);
}

void Agent::after_group(Instant now, std::vector<Effect>& out) {
    if (group_ && assignment_ && phase_ == Phase::stopping) round_to_clean_ = assignment_->round;
    if (!death_) clean_up_round(out);
    if (result_ || ending_) return finish(out);
    if (is_fenced_) {
        is_fenced_ = false;
        // Earlier it is perhaps this node that nobody hears: it may come back in time.
        if (welcome_->hosted && now >= own_word_ends_at())
            return end(
                server_gone("nothing was heard of the ddprun that hosts the rendezvous"), now, out);
    }
    if (is_lost_ && !leave_signal_) return rejoin(now, out);
    phase_ = Phase::joining;
    if (leave_signal_) {
        facts_.is_ready = assignment_.has_value();
        return wait_for_result(now, out);
    }
    if (assignment_ && has_lease()) next_round_note_at_ = now + next_round_note_after;
    if (fresh_store_) {
        facts_.is_ready = assignment_.has_value();
    } else if (!is_opening_store_) {
        is_opening_store_ = true;
        out.push_back(OpenStore{});
    }
}

void Agent::clean_up_round(std::vector<Effect>& out) {
    if (round_to_clean_) out.push_back(CleanUpRound{*round_to_clean_});
    round_to_clean_.reset();
}

control::WorkerFailure Agent::failure_of(int local_rank) const {
    const auto& worker = group_->worker(local_rank);
    control::WorkerFailure failure;
    failure.rank = rank_of(local_rank);
    failure.local_rank = local_rank;
    failure.pid = worker.pid();
    failure.end = to_worker_end(*worker.exit());
    failure.message = worker.exit()->describe();
    return failure;
}

int Agent::rank_of(int local_rank) const {
    return assignment_->rank_base + local_rank;
}

// ---- neighbours ---------------------------------------------------------------------------------

/// Who of them can be reached at all: the server must know before anybody is silent.
void Agent::meet_neighbours(Instant now, std::vector<Effect>& out) {
    neighbours_.enter(assignment_->round, assignment_->neighbours);
    told_reach_ = 0;
    asked_neighbours_at_.reset();
    // When this process stops, the server in it does too: nobody judges it meanwhile.
    if (has_lease() && !is_hosting_) ask_neighbours(now, out);
}

void Agent::ask_neighbours(Instant now, std::vector<Effect>& out) {
    asked_neighbours_at_ = now;
    for (auto& ask : neighbours_.ask_all(now))
        out.push_back(std::move(ask));
}

void Agent::on_peer_answered(const PeerAnswered& answered, Instant now, std::vector<Effect>& out) {
    neighbours_.on_answer(answered.ask, answered.answer);
    if (neighbours_.is_round_over() && fence()) fall("a neighbour is in a later round", now, out);
}

/// Not before it is known who can be reached, unless there is more to tell already.
void Agent::tell_started(std::vector<Effect>& out) {
    const bool is_more = phase_ == Phase::succeeded || facts_.has_failed || facts_.is_ready;
    if (!neighbours_.is_reach_known() && !is_more) return;
    told_.has_started = true;
    told_reach_ = neighbours_.reached_count();
    // The server may judge sooner as soon as it has heard of them: the keeper knows that before.
    if (has_vouchers()) update_fence(out);
    send(control::Started{assignment_->round, told_reach_}, out);
}

/// While nothing is heard of the server, and as long as a vouch can still help.
std::optional<Instant> Agent::vouch_at() const {
    if (!has_vouchers() || is_lost_ || !welcome_) return std::nullopt;
    const auto next = std::max(
        acknowledged_at_ + limits::vouch_after, *asked_neighbours_at_ + limits::vouch_interval);
    if (next >= standing_ends_at()) return std::nullopt;
    return next;
}

// ---- ends ---------------------------------------------------------------------------------------

void Agent::on_signal(int signal, Instant now, std::vector<Effect>& out) {
    const bool is_ending = leave_signal_ || result_ || ending_;
    if (is_ending) {
        // A person who asks again wants it now; a scheduler repeats itself for no reason.
        if (signal != SIGINT) return;
        if (has_workers()) return kill_workers(now, out);
        return finish(out);
    }
    leave_signal_ = signal;
    // The death in its settle window was this signal's doing.
    if (death_ && death_->settle_until) death_.reset();
    if (is_hosting_)
        out.push_back(InterruptServer{signal, leave_reason()});
    else
        facts_.is_leaving = true;
    tell_server(now, out);
    stop_workers(signal, config_.settings.grace, now, out);
}

std::string Agent::leave_reason() const {
    const auto who = signal_name(*leave_signal_) + " on " + node_.host;
    return *leave_signal_ == SIGINT ? "interrupted by " + who : "stopped by " + who;
}

void Agent::wait_for_result(Instant now, std::vector<Effect>& out) {
    if (!is_admitted_) return finish(out);
    // Where this signal ends the whole job, the result comes when everybody has stopped.
    const bool is_for_all = is_hosting_ || *leave_signal_ == SIGINT;
    const auto patience = is_for_all ? config_.settings.grace + limits::drain_margin : Duration{};
    if (!result_deadline_) result_deadline_ = now + patience + last_words_timeout;
}

void Agent::end(Ending ending, Instant now, std::vector<Effect>& out) {
    if (ending_ || result_) return;
    ending_ = std::move(ending);
    stop_workers(SIGTERM, config_.settings.grace, now, out);
}

void Agent::rejoin(Instant now, std::vector<Effect>& out) {
    is_lost_ = false;
    node_.nonce = make_nonce(random_);
    neighbours_.become(node_.nonce);
    told_reach_ = 0;
    drop_links(out);
    if (used_store_) out.push_back(CloseStore{*used_store_});
    used_store_.reset();
    discard_fresh_store(out);
    assignment_.reset();
    group_.reset();
    welcome_.reset();
    facts_ = {};
    told_ = {};
    death_.reset();
    failure_.reset();
    failure_kind_.reset();
    clean_up_round(out);
    phase_ = Phase::joining;
    if (!unreachable_since_) unreachable_since_ = now;
    if (!note_at_) note_at_ = now + first_note_after;
    open_store(out);
    connect(now, out);
}

void Agent::finish(std::vector<Effect>& out) {
    if (phase_ == Phase::done) return;
    phase_ = Phase::done;
    clean_up_round(out);
    drop_links(out);
    if (used_store_) out.push_back(CloseStore{*used_store_});
    if (fresh_store_) out.push_back(CloseStore{*fresh_store_});
    used_store_.reset();
    fresh_store_.reset();
    if (told_fence_) out.push_back(SetFence{std::nullopt});
    told_fence_.reset();
    out.push_back(Finish{report()});
}

JobReport Agent::report() const {
    JobReport report;
    report.run_id = config_.run_id;
    report.host = node_.host;
    report.program = entrypoint_name(config_.worker);
    report.max_restarts = config_.max_restarts;
    report.stopped = stopped_;
    if (assignment_) {
        report.group_rank = assignment_->group_rank;
        report.world_size = assignment_->world_size;
        report.round = assignment_->round;
        report.restarts = assignment_->restart_count;
    }
    if (result_) {
        report.outcome = result_->outcome;
        report.exit_code = result_->exit_code;
        report.first_cause = result_->first_cause;
    } else if (ending_) {
        report.outcome = ending_->outcome;
        report.exit_code = ending_->exit_code;
        report.reason = ending_->reason;
    } else {
        report.outcome = control::Outcome::cancelled;
        report.exit_code = exit_codes::killed_by(leave_signal_.value_or(0));
        report.reason = leave_signal_ ? leave_reason() : "";
    }
    report.consequences = consequences();
    return report;
}

/// This node's first: it knows all of its own.
std::vector<control::Consequence> Agent::consequences() const {
    auto all = fallen_;
    if (result_) all.insert(all.end(), result_->consequences.begin(), result_->consequences.end());
    std::set<int> named;
    if (result_ && result_->first_cause && result_->first_cause->worker)
        named.insert(result_->first_cause->worker->rank);
    std::erase_if(
        all, [&](const control::Consequence& one) { return !named.insert(one.rank).second; });
    return all;
}

// ---- time ---------------------------------------------------------------------------------------

bool Agent::has_lease() const {
    return config_.nodes.max > 1 || config_.nodes.spares > 0;
}

std::optional<Instant> Agent::fence() const {
    if (!has_lease() || !welcome_ || is_fenced_ || !has_workers()) return std::nullopt;
    // The leaders are gone; what they left behind acts in no world.
    if (phase_ == Phase::succeeded) return std::nullopt;
    return standing_ends_at();
}

/// Until then the server counts this node in, whatever it did not hear: always earlier than its
/// own judgement (agent/README.md, "The fence"). None: it never judges.
std::optional<Instant> Agent::standing_ends_at() const {
    if (!has_lease() || !welcome_) return std::nullopt;
    const auto own_word = own_word_ends_at();
    if (!has_vouchers()) return own_word;
    const auto heard_at = std::max(acknowledged_at_, neighbours_.vouched_at().value_or(Instant{}));
    return std::min(own_word, heard_at + limits::fence_after_silence);
}

/// Of what this node said to the server itself.
Instant Agent::own_word_ends_at() const {
    return acknowledged_at_ +
           from_seconds(limits::fence_share_of_lease * in_seconds(welcome_->lease));
}

/// The server asks the neighbours then, and judges after a few seconds instead of a lease.
bool Agent::has_vouchers() const {
    return told_reach_ >= limits::least_reached;
}

bool Agent::has_standing(Instant now) const {
    const auto ends_at = standing_ends_at();
    return welcome_ && !is_lost_ && (!ends_at || now < *ends_at);
}

/// The server may soon give this node's ranks away: nothing of it may act any more.
void Agent::fall(std::string reason, Instant now, std::vector<Effect>& out) {
    is_fenced_ = true;
    drop_links(out);
    if (!unreachable_since_) unreachable_since_ = now;
    connect_at_ = now + pause_before_next_attempt(now);
    out.push_back(NoteStopping{assignment_->round, std::move(reason)});
    kill_workers(now, out);
}

std::string Agent::silence(Instant now) const {
    auto text = "no answer from the rendezvous server for " + whole_seconds(now - acknowledged_at_);
    if (!has_vouchers() || now >= own_word_ends_at()) return text;
    return text + ", and no neighbour vouches for this node";
}

void Agent::update_fence(std::vector<Effect>& out) {
    // Past the fence the keeper's date stands until the last process is gone.
    if (is_fenced_) return;
    const auto next = fence();
    if (next == told_fence_) return;
    told_fence_ = next;
    out.push_back(SetFence{next});
}

std::optional<Instant> Agent::patience_ends_at() const {
    const bool is_idle = phase_ == Phase::joining || phase_ == Phase::succeeded;
    if (!unreachable_since_ || !is_idle || leave_signal_) return std::nullopt;
    auto patience = config_.settings.join_timeout;
    if (welcome_ && welcome_->hosted && welcome_->lease > Duration{})
        patience = std::min(
            patience, from_seconds(limits::fence_share_of_lease * in_seconds(welcome_->lease)));
    return *unreachable_since_ + patience;
}

/// A server that says hello answers a join or resume at once, whatever it then decides.
std::optional<Instant> Agent::admission_ends_at() const {
    if (!link_ || !greeted_at_ || is_admitted_) return std::nullopt;
    return *greeted_at_ + limits::handshake_timeout;
}

void Agent::on_deadline(Instant now, std::vector<Effect>& out) {
    const auto is_due = [&](const std::optional<Instant>& moment) {
        return moment && now >= *moment;
    };
    if (is_due(admission_ends_at())) {
        const int silent = *link_;
        out.push_back(CloseLink{silent});
        on_link_closed(
            {silent, Trouble::no_answer, "it says hello and does not answer the join"}, now, out);
        if (phase_ == Phase::done) return;
    }
    if (is_due(fence())) fall(silence(now), now, out);
    if (phase_ == Phase::done) return;
    if (group_ && is_due(group_->next_deadline()))
        tell_group(WorkerGroup::DeadlinePassed{}, now, out);
    if (phase_ == Phase::done) return;
    if (is_due(notice_until_)) stop_workers(SIGTERM, config_.settings.grace, now, out);
    if (phase_ == Phase::done) return;
    if (death_ && is_due(death_->settle_until)) explain(death_->local_rank, now, out);
    if (phase_ == Phase::done) return;
    if (death_ && is_due(death_->explain_until)) report_failure(failure_of(death_->local_rank));
    if (is_due(next_round_note_at_)) note_next_round(out);
    if (is_due(connect_at_)) connect(now, out);
    if (is_due(heartbeat_at_)) heartbeat(now, out);
    if (is_due(vouch_at())) ask_neighbours(now, out);
    if (is_due(note_at_)) {
        note_at_ = now + note_interval;
        if (unreachable_since_)
            out.push_back(
                NoteWaiting{last_trouble_, last_trouble_reason_, now - *unreachable_since_});
    }
    if (is_due(result_deadline_)) return finish(out);
    if (is_due(patience_ends_at())) {
        if (refusal_)
            return end({control::Outcome::failed, exit_codes::refused, *refusal_}, now, out);
        end(server_gone(
                std::string{describe(last_trouble_)} + " at " +
                config_.rendezvous.endpoint.to_string() + " for " +
                whole_seconds(now - *unreachable_since_)),
            now,
            out);
    }
}

/// The workers are gone and the other nodes make no new round: the person at this node's screen
/// would see nothing until there is one.
void Agent::note_next_round(std::vector<Effect>& out) {
    next_round_note_at_.reset();
    // Without a server other lines are said.
    if (!is_admitted_ || phase_ != Phase::joining || !assignment_) return;
    const auto why = stop_reason_.empty() ? std::string{} : " (" + stop_reason_ + ")";
    out.push_back(NoteStandby{
        "round " + std::to_string(assignment_->round) + " is over" + why +
        "; waiting for the other nodes, or a replacement, at most " +
        whole_seconds(config_.settings.join_timeout)});
}

std::optional<Instant> Agent::next_deadline() const {
    if (phase_ == Phase::done) return std::nullopt;
    auto next = earliest(connect_at_, heartbeat_at_);
    next = earliest(earliest(next, fence()), admission_ends_at());
    next = earliest(next, vouch_at());
    next = earliest(earliest(next, note_at_), next_round_note_at_);
    next = earliest(next, patience_ends_at());
    next = earliest(next, result_deadline_);
    if (group_) next = earliest(next, group_->next_deadline());
    next = earliest(next, notice_until_);
    if (death_) next = earliest(next, earliest(death_->settle_until, death_->explain_until));
    return next;
}

void Agent::check() const {
    require(!is_admitted_ || link_, "only a link admits");
    require(!attempt_ || !connect_at_, "one attempt at a time");
    require(
        (phase_ != Phase::starting && phase_ != Phase::running) || has_workers(),
        "a running node has workers");
    require(phase_ != Phase::joining || !has_workers(), "a joining node has none");
    require(!heartbeat_at_ || is_admitted_, "heartbeats need a server");
    require(!notice_until_ || has_workers(), "a death is told while its round is there");
}

control::WorkerEnd to_worker_end(const WorkerExit& exit) {
    using Kind = control::WorkerEnd::Kind;
    return std::visit(
        Overloaded{
            [](const WorkerExit::Exited& e) {
                return control::WorkerEnd{Kind::exited, e.code};
            },
            [](const WorkerExit::Killed& e) {
                return control::WorkerEnd{Kind::killed, e.signal, e.core_dumped};
            },
            [](const WorkerExit::NotExecuted& e) {
                return control::WorkerEnd{Kind::not_executed, e.error_number};
            },
            // An ordinary failure, with a message of its own: it may be restarted.
            [&](const WorkerExit::NotStarted&) {
                return control::WorkerEnd{Kind::exited, exit.shell_code()};
            },
        },
        exit.how());
}

}  // namespace ddprun::agent
