// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"

#include "agent/plan/death_note.hpp"
#include "agent/supervise/next_step.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/versions.hpp"

#include <csignal>
#include <utility>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

/// A round that needs no new node begins long before.
constexpr Duration next_round_note_after = 2s;
/// A node that leaves alone gets no result: it waits only for one that is already on its way.
constexpr Duration late_result_timeout = 1s;

/// Whether the server judges a silent node: another one could take its place.
bool needs_lease(const AgentConfig& config) {
    const auto& nodes = config.join.nodes;
    return nodes.max > 1 || nodes.spares > 0 || config.rendezvous.etcd;
}

bool is_due(const std::optional<Instant>& moment, Instant now) {
    return moment && now >= *moment;
}

/// Where the workers find this node.
std::string node_addr(const AgentConfig& config, const ServerLink& link) {
    if (!config.join.addr.empty()) return config.join.addr;
    const auto own_end = parse_endpoint(link.socket_addr(), 0);
    return own_end ? own_end->host : std::string{};
}

/// Which workers a failure of this round may stem from, and where it is written for their peers.
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

}  // namespace

Agent::Agent(AgentConfig config, control::Node node, std::uint16_t peer_port, Random& random)
    : config_(std::move(config)),
      node_(std::move(node)),
      peer_port_(peer_port),
      random_(random),
      link_(
          {needs_lease(config_),
           config_.join.settings.join_timeout,
           config_.rendezvous.endpoint.to_string()},
          random),
      fence_(needs_lease(config_), node_.nonce) {}

void Agent::handle(Event event, Instant now, Effects& out) {
    if (phase_ == Phase::done) return;
    const auto phase_before = phase_;
    std::visit(
        Overloaded{
            [&](Began) {
                began_at_ = phase_began_at_ = now;
                stores_.open(out);
                const auto& left = config_.preemption.time_left;
                const auto grace = config_.join.settings.grace;
                // A shorter one has no time for a save: the scheduler ends it.
                if (left && *left > grace) allocation_stop_at_ = now + *left - grace;
                if (!config_.health_check.empty())
                    return check_health(CheckHealth::Reason::start, out);
                notify_link(ServerLink::ConnectRequested{}, now, out);
            },
            [&](const StoreOpened& opened) {
                stores_.on_opened(opened.port);
                if (phase_ == Phase::joining && round_) round_->reached.is_ready = true;
            },
            [&](StoreFailed& failed) {
                stores_.on_open_failed();
                end(InternalError{std::move(failed.reason)}, now, out);
            },
            [&](HostingStarted) { is_hosting_ = true; },
            [&](LinkOpened& opened) { notify_link(std::move(opened), now, out); },
            [&](LinkClosed& closed) { notify_link(std::move(closed), now, out); },
            [&](ConnectRefused& refused) { notify_link(std::move(refused), now, out); },
            [&](Received& received) {
                // Messages of a replaced connection are ignored.
                if (link_.is_current(received.link))
                    on_message(std::move(received.message), now, out);
            },
            [&](const WorkerSpawned& spawned) {
                notify_group(WorkerGroup::Spawned{spawned.local_rank, spawned.pid}, now, out);
            },
            [&](WorkerExited& exited) { on_worker_exited(std::move(exited), now, out); },
            [&](FailureExplained& explained) {
                if (round_) notify_failures(std::move(explained), now, out);
            },
            [&](const LeftoversCounted& counted) {
                if (group() != nullptr)
                    notify_group(WorkerGroup::LeftoversCounted{counted.count}, now, out);
            },
            [&](StoreChecked& checked) { on_store_checked(std::move(checked), now, out); },
            [&](const NoticeGiven& given) {
                if (round_) notify_failures(given, now, out);
            },
            [&](StoreWaited& waited) { on_store_waited(std::move(waited), out); },
            [&](StoreClientsFound& found) {
                on_store_clients_found(std::move(found.clients), out);
            },
            [&](ProgressRead& read) {
                if (!is_current(read.progress.round)) return;
                round_->progress.known = std::move(read.progress.ranks);
                round_->progress.changed_at = now - read.progress.age;
            },
            [&](WorkersSeen& seen) { on_workers_seen(std::move(seen), now, out); },
            [&](SavesRead& read) {
                if (!is_current(read.round)) return;
                round_->save.on_read(std::move(read.ranks));
                has_asking_workers_ |= round_->save.asked().has_value();
            },
            [&](SaveShown& shown) {
                if (is_current(shown.round))
                    round_->save.on_shown(shown.ballot, std::move(shown.ranks));
            },
            [&](const PeerAsked& asked) {
                const bool is_valid = !is_lost_ && fence_.is_valid(link_.membership(), now);
                out.push_back(AnswerPeer{
                    asked.caller, fence_.neighbours().answer(asked.probe, is_valid, now)});
            },
            [&](const PeerAnswered& answered) { on_peer_answered(answered, now, out); },
            [&](const Signalled& signalled) { on_signal(signalled, now, out); },
            [&](StopCommanded& stop) { on_stop_commanded(std::move(stop), now, out); },
            [&](DrainCommanded& drain) { pass_on(drain.id, std::move(drain), out); },
            [&](UndrainCommanded& undrain) { pass_on(undrain.id, std::move(undrain), out); },
            [&](HealthChecked& checked) { on_health_checked(std::move(checked), now, out); },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
    if (phase_ != Phase::done) {
        clean_up_explained(out);
        report_to_server(now, out);
        update_keeper(out);
    }
    if (phase_ != phase_before) phase_began_at_ = now;
    check();
}

// ---- the parts ----------------------------------------------------------------------------------

void Agent::notify_link(ServerLink::Event event, Instant now, Effects& out) {
    std::vector<ServerLink::Effect> asked;
    link_.handle(std::move(event), now, asked);
    for (auto& effect : asked) {
        // Nothing follows Finish.
        if (phase_ == Phase::done) return;
        std::visit(
            Overloaded{
                [&](ServerLink::JoinUnanswered) {
                    stores_.discard_fresh(out);
                    stores_.open(out);
                },
                [&](ServerLink::Ended) { finish(now, out); },
                [&](ServerLink::Rejected& rejected) {
                    auto next_step =
                        rejected.error ? next_step_after(*rejected.error, config_) : std::string{};
                    end(NodeRefused{std::move(rejected.reason), std::move(next_step)}, now, out);
                },
                [&](ServerLink::NoteWaiting& note) {
                    if (const auto end = wait_ends_at()) note.timeout = *end - (now - note.waited);
                    out.push_back(std::move(note));
                },
                [&](ServerLink::ServerGone& gone) {
                    auto next_step = link_.was_welcomed()
                                         ? std::string{}
                                         : next_step_after(link_.last_error(), config_);
                    end(ServerGone{std::move(gone.reason), std::move(next_step)}, now, out);
                },
                [&](ServerLink::FoundStale& stale) { note_stale(std::move(stale.what), out); },
                [&](auto& order) { out.push_back(std::move(order)); },
            },
            effect);
    }
}

void Agent::notify_group(WorkerGroup::Event event, Instant now, Effects& out) {
    require(group() != nullptr, "workers belong to a group");
    std::vector<WorkerGroup::Effect> asked;
    round_->group->handle(std::move(event), now, asked);
    for (auto& effect : asked) {
        if (phase_ == Phase::done) return;
        std::visit(
            Overloaded{
                [&](WorkerGroup::Started) {
                    phase_ = Phase::running;
                    begin_watch(now);
                    round_->reached.has_started = true;
                },
                // FailureReport judges the exit itself.
                [&](WorkerGroup::Failed) {},
                [&](WorkerGroup::Succeeded) {
                    phase_ = Phase::succeeded;
                    round_->reached.has_succeeded = true;
                },
                [&](WorkerGroup::FoundStuck& stuck) {
                    out.push_back(NoteStuck{std::move(stuck.local_ranks), stuck.leftover_count});
                    if (ending_ || leaving_) finish(now, out);
                },
                [&](WorkerGroup::Ended) { after_group(now, out); },
                [&](auto& order) { out.push_back(std::move(order)); },
            },
            effect);
    }
}

void Agent::notify_failures(FailureReport::Event event, Instant now, Effects& out) {
    std::vector<FailureReport::Effect> asked;
    round_->failures.handle(std::move(event), now, asked);
    for (auto& effect : asked) {
        if (phase_ == Phase::done) return;
        std::visit(
            Overloaded{
                [&](FailureReport::StopWorkers) {
                    stop_workers({SIGTERM, config_.join.settings.grace}, now, out);
                },
                [&](FailureReport::FailureFound) { round_->is_failure_reported = false; },
                [&](auto& order) { out.push_back(std::move(order)); },
            },
            effect);
    }
}

// ---- the round ----------------------------------------------------------------------------------

void Agent::begin_round(control::Assignment next, Instant now, Effects& out) {
    leave_round(out);
    stores_.begin_round(next.group_rank == 0, config_.shares_store, out);
    const auto& incarnation = link_.membership()->welcome.incarnation;
    FailureReport failures{place_in(next, incarnation, config_)};
    round_ = NodeRound{std::move(next), std::move(failures), WorkerGroup{config_.worker.nproc}};
    phase_ = Phase::starting;
    standby_reason_.clear();
    notify_link(ServerLink::WorkersStarted{}, now, out);
    const auto& assignment = round_->assignment;
    out.push_back(SpawnWorkers{assignment, incarnation, node_addr(config_, link_)});
    if (config_.shares_store)
        out.push_back(
            CheckStore{assignment.round, {assignment.master_addr, assignment.master_port}});
    fence_.enter_round(assignment);
    // The reach of the neighbours is reported before any node is silent. When this process stops, a
    // server in it stops too: nothing judges this node meanwhile.
    if (fence_.has_lease() && !is_hosting_) probe_neighbours(now, out);
}

/// A round in which this node starts no workers any more.
void Agent::begin_round_without_workers(control::Assignment next, Effects& out) {
    leave_round(out);
    FailureReport failures{place_in(next, link_.membership()->welcome.incarnation, config_)};
    round_ = NodeRound{std::move(next), std::move(failures)};
    round_->reached.is_ready = true;
}

void Agent::on_worker_exited(WorkerExited exited, Instant now, Effects& out) {
    require(group() != nullptr, "workers belong to a group");
    const int local_rank = exited.local_rank;
    const FailureReport::WorkerExited report{
        local_rank, group()->worker(local_rank).pid(), exited.exit, group()->has_killed()};
    notify_group(WorkerGroup::Exited{local_rank, std::move(exited.exit)}, now, out);
    notify_failures(report, now, out);
}

void Agent::on_store_checked(StoreChecked checked, Instant now, Effects& out) {
    const bool is_of_use = phase_ == Phase::starting || phase_ == Phase::running;
    if (!is_current(checked.round) || !is_of_use || checked.failure.empty()) return;
    notify_failures(FailureReport::StoreUnreachable{std::move(checked.failure)}, now, out);
}

void Agent::stop_workers(const WorkerGroup::StopRequested& request, Instant now, Effects& out) {
    if (!has_workers()) return after_group(now, out);
    withdraw_proposal(out);
    notify_failures(FailureReport::StopBegan{request.signal}, now, out);
    phase_ = Phase::stopping;
    // The next round must not wait for its store; a node that ends has no next round.
    if (!ending_ && !leaving_) stores_.open(out);
    notify_group(request, now, out);
}

void Agent::kill_workers(Instant now, Effects& out) {
    if (!has_workers()) return after_group(now, out);
    notify_failures(FailureReport::StopBegan{SIGKILL}, now, out);
    phase_ = Phase::stopping;
    notify_group(WorkerGroup::KillRequested{}, now, out);
}

void Agent::after_group(Instant now, Effects& out) {
    notify_link(ServerLink::WorkersEnded{}, now, out);
    if (phase_ == Phase::stopping) round_->needs_clean_up = true;
    clean_up_explained(out);
    if (ending_) return finish(now, out);
    if (fence_.is_tripped()) {
        fence_.clear();
        const auto& membership = link_.membership();
        // Earlier the fault may be on this node's side: the server may answer again in time.
        if (membership->welcome.hosted && now >= membership->valid_until())
            return end(
                ServerGone{link_.with_last_error(
                    "nothing was heard of the ddprun that hosts the rendezvous")},
                now,
                out);
    }
    if (is_lost_ && !leaving_) return rejoin(now, out);
    phase_ = Phase::joining;
    if (leaving_) return wait_for_result(now, out);
    if (!round_) return stores_.open(out);
    check_health_after_round(out);
    if (fence_.has_lease()) round_->note_at = now + next_round_note_after;
    if (stores_.fresh()) round_->reached.is_ready = true;
    stores_.open(out);
}

/// A failure that is being explained needs its files.
void Agent::clean_up_explained(Effects& out) {
    if (round_ && !round_->failures.is_open()) clean_up_round(out);
}

void Agent::clean_up_round(Effects& out) {
    if (!round_ || !round_->needs_clean_up) return;
    round_->needs_clean_up = false;
    out.push_back(CleanUpRound{round_->assignment.round});
}

// ---- the fence ----------------------------------------------------------------------------------

std::optional<Instant> Agent::fence() const {
    // Of workers that have succeeded the leaders are gone; what they left behind acts in no world.
    if (!has_workers() || phase_ == Phase::succeeded) return std::nullopt;
    return fence_.ends_at(link_.membership());
}

std::optional<Instant> Agent::probe_at() const {
    return is_lost_ ? std::nullopt : fence_.probe_at(link_.membership());
}

void Agent::probe_neighbours(Instant now, Effects& out) {
    for (auto& ask : fence_.probe_all(now))
        out.push_back(std::move(ask));
}

void Agent::on_peer_answered(const PeerAnswered& answered, Instant now, Effects& out) {
    const bool is_over = fence_.on_answer(answered.ask, answered.answer);
    if (is_over && fence()) fence_self("a neighbour is in a later round", now, out);
}

/// The server may soon give this node's ranks away: nothing of it may act any more.
void Agent::fence_self(std::string reason, Instant now, Effects& out) {
    fence_.trip();
    notify_link(ServerLink::ReconnectRequested{}, now, out);
    out.push_back(NoteStopping{round_->assignment.round, std::move(reason)});
    kill_workers(now, out);
}

void Agent::update_keeper(Effects& out) {
    const auto ends_at = fence();
    if (fence_.change_keeper_fence(ends_at)) out.push_back(SetFence{ends_at});
}

// ---- ends ---------------------------------------------------------------------------------------

void Agent::on_signal(const Signalled& signalled, Instant now, Effects& out) {
    const int signal = signalled.signal;
    const auto grace = config_.join.settings.grace;
    if (leaving_ || ending_) {
        // A second SIGINT comes from the user and means at once; a scheduler only repeats itself.
        if (signal != SIGINT) {
            if (signalled.is_for_all_processes && has_workers())
                notify_group(WorkerGroup::StopRequested{signal, grace, std::nullopt}, now, out);
            return;
        }
        if (has_workers()) return kill_workers(now, out);
        return finish(now, out);
    }
    const bool is_notice = signal == config_.preemption.signal;
    // Every rank has saved, and is being stopped for that.
    if (is_ending_as_saved() && (is_notice || signal == SIGTERM)) return;
    if (is_saved_before(signalled)) {
        const auto& plan = config_.preemption;
        const auto reason = signal_name(signal) + " on " + node_.host;
        return give_notice(
            {signal, reason, now + plan.window(grace), now + plan.whole(grace)}, now, out);
    }
    NodeLeaving leaving{is_notice ? SIGTERM : signal};
    if (is_notice) leaving.why = signal_name(signal) + " on " + node_.host;
    leave(std::move(leaving), signalled.is_for_all_processes && !is_notice, now, out);
}

/// `has_signalled_all`: the workers have the signal already.
void Agent::leave(NodeLeaving leaving, bool has_signalled_all, Instant now, Effects& out) {
    const int signal = leaving.signal;
    const auto of_command = leaving.command ? leaving.command->grace : std::nullopt;
    const auto left = grace_left(now);
    const auto grace = std::min(of_command.value_or(left), left);
    notice_.reset();
    leaving_ = std::move(leaving);
    if (round_) notify_failures(FailureReport::LeaveBegan{}, now, out);
    // Other jobs of the server are not meant by a command, and it is no end of the server.
    const bool is_by_message =
        leaving_->command && link_.is_admitted() && link_.version() >= control::job_end_since;
    if (is_hosting_ && !is_by_message) {
        leaving_->has_interrupted_server = true;
        out.push_back(InterruptServer{signal, leaving_->reason(node_.host), of_command});
    }
    report_to_server(now, out);
    if (signal == SIGINT && has_workers()) out.push_back(NoteInterrupt{grace});
    WorkerGroup::StopRequested request{signal, grace};
    if (has_signalled_all) request.signal_after.reset();
    stop_workers(request, now, out);
}

void Agent::wait_for_result(Instant now, Effects& out) {
    if (round_) round_->reached.is_ready = true;
    if (!link_.is_admitted()) return finish(now, out);
    if (leaving_->result_deadline) return;
    // Where this signal ends the whole job, the result comes when every node has stopped.
    const bool is_for_all = is_hosting_ || leaving_->ends_job();
    const auto drain = is_for_all ? config_.join.settings.grace + limits::drain_margin : Duration{};
    leaving_->result_deadline = now + drain + late_result_timeout;
    notify_link(ServerLink::ResultAwaited{}, now, out);
}

void Agent::end(Ending ending, Instant now, Effects& out) {
    if (ending_) return;
    ending_ = std::move(ending);
    stop_workers({SIGTERM, config_.join.settings.grace}, now, out);
}

void Agent::leave_round(Effects& out) {
    clean_up_round(out);
    last_ends_ = ends();
    round_.reset();
}

void Agent::rejoin(Instant now, Effects& out) {
    is_lost_ = false;
    node_.nonce = make_nonce(random_);
    fence_.become(node_.nonce);
    notify_link(ServerLink::DisconnectRequested{}, now, out);
    stores_.close_all(out);
    leave_round(out);
    phase_ = Phase::joining;
    stores_.open(out);
    // Not before it is known to be fit.
    if (checking_)
        checking_ = CheckHealth::Reason::start;
    else
        notify_link(ServerLink::ConnectRequested{}, now, out);
}

void Agent::finish(Instant now, Effects& out) {
    if (phase_ == Phase::done) return;
    // What the job ends with says nothing of a node that is unfit.
    const bool is_unfit = leaving_ && leaving_->by == NodeLeft::By::unfit;
    if (!ending_ || is_unfit)
        ending_ = NodeLeft{
            leaving_->signal,
            leaving_->reason(node_.host),
            leaving_->command ? NodeLeft::By::signal : leaving_->by};
    clean_up_round(out);
    notify_link(ServerLink::DisconnectRequested{}, now, out);
    stores_.close_all(out);
    fence_.clear();
    if (fence_.change_keeper_fence(std::nullopt)) out.push_back(SetFence{std::nullopt});
    phase_ = Phase::done;
    out.push_back(Finish{report()});
}

FailureReport::Ends Agent::ends() const {
    return group() != nullptr ? round_->failures.ends() : last_ends_;
}

JobReport Agent::report() const {
    auto report = report_of(*ending_, config_, ends());
    report.host = node_.host;
    if (round_) {
        report.group_rank = round_->assignment.group_rank;
        report.world_size = round_->assignment.world_size;
        report.round = round_->assignment.round;
        report.restarts = round_->assignment.restart_count;
    }
    return report;
}

// ---- time ---------------------------------------------------------------------------------------

/// Of an idle node: workers that run are kept until the fence.
std::optional<Instant> Agent::times_out_at() const {
    const bool is_idle = phase_ == Phase::joining || phase_ == Phase::succeeded;
    return is_idle && !leaving_ ? link_.times_out_at() : std::nullopt;
}

/// Workers that are being stopped have their grace already.
std::optional<Instant> Agent::notice_ends_at() const {
    const bool counts = notice_ && !ending_ && phase_ != Phase::stopping && !is_ending_as_saved();
    return counts ? std::optional{notice_->ends_at} : std::nullopt;
}

std::optional<Instant> Agent::wait_ends_at() const {
    return has_workers() ? fence() : times_out_at();
}

void Agent::on_deadline(Instant now, Effects& out) {
    if (is_due(fence(), now)) fence_self(fence_.silence(link_.membership(), now), now, out);
    if (phase_ == Phase::done) return;
    if (group() != nullptr) notify_group(WorkerGroup::DeadlinePassed{}, now, out);
    if (phase_ == Phase::done) return;
    if (round_) notify_failures(FailureReport::DeadlinePassed{}, now, out);
    if (phase_ == Phase::done) return;
    if (round_ && is_due(round_->note_at, now)) note_next_round(out);
    notify_link(ServerLink::DeadlinePassed{}, now, out);
    if (phase_ == Phase::done) return;
    if (is_due(probe_at(), now)) probe_neighbours(now, out);
    if (leaving_ && is_due(leaving_->result_deadline, now)) return finish(now, out);
    if (is_due(notice_at(), now)) on_allocation_ending(now, out);
    if (is_due(notice_ends_at(), now)) end_notice("the ranks did not save in time", now, out);
    if (phase_ == Phase::done) return;
    if (is_due(look_at(), now)) look_at_workers(now, out);
    if (is_due(times_out_at(), now)) notify_link(ServerLink::TimedOut{}, now, out);
}

/// The workers are gone and the other nodes make no new round: the screen of this node would
/// show nothing until there is one.
void Agent::note_next_round(Effects& out) {
    round_->note_at.reset();
    // Without a server other lines are logged.
    if (!link_.is_admitted() || phase_ != Phase::joining) return;
    const auto& why = round_->stop_reason;
    const auto& settings = config_.join.settings;
    out.push_back(NoteStandby{
        "round " + std::to_string(round_->assignment.round) + " is over" +
        (why.empty() ? "" : " (" + why + ")") +
        "; waiting for the other nodes, or a replacement, at most " +
        whole_seconds(settings.join_timeout) +
        (settings.replacement_timeout
             ? ", for a replacement " + whole_seconds(*settings.replacement_timeout)
             : "")});
}

std::optional<Instant> Agent::next_deadline() const {
    if (phase_ == Phase::done) return std::nullopt;
    auto next = earliest(link_.next_deadline(), times_out_at());
    next = earliest(earliest(next, fence()), probe_at());
    if (leaving_) next = earliest(next, leaving_->result_deadline);
    next = earliest(next, notice_at());
    next = earliest(earliest(next, notice_ends_at()), look_at());
    if (!round_) return next;
    next = earliest(earliest(next, round_->failures.next_deadline()), round_->note_at);
    if (round_->group) next = earliest(next, round_->group->next_deadline());
    return next;
}

void Agent::check() const {
    require(
        (phase_ != Phase::starting && phase_ != Phase::running) || has_workers(),
        "a running node has workers");
    require(phase_ != Phase::joining || !has_workers(), "a joining node has none");
}

}  // namespace ddprun::agent
