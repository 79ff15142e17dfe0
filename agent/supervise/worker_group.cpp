// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/worker_group.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

// A leftover process is usually about to exit: the first counts follow quickly, later counts are
// rare.
constexpr Duration first_count_pause = 500us;
constexpr Duration longest_count_pause = 50ms;

}  // namespace

WorkerGroup::WorkerGroup(int worker_count) : workers_(static_cast<std::size_t>(worker_count)) {
    require(worker_count > 0, "a group has workers");
}

const Worker& WorkerGroup::worker(int local_rank) const {
    return workers_.at(static_cast<std::size_t>(local_rank));
}

void WorkerGroup::handle(Event event, Instant now, std::vector<Effect>& out) {
    std::visit(
        Overloaded{
            [&](const Spawned& spawned) {
                notify(spawned.local_rank, Worker::Spawned{spawned.pid}, now, out);
                ++spawned_count_;
                if (state_ != State::starting || spawned_count_ < size()) return;
                state_ = State::running;
                out.push_back(Started{});
            },
            [&](Exited& exited) {
                notify(exited.local_rank, Worker::Exited{std::move(exited.exit)}, now, out);
                ++gone_count_;
                after_exit(exited.local_rank, now, out);
            },
            [&](const LeftoversCounted& counted) { on_counted(counted.count, now, out); },
            [&](const StopRequested& request) {
                if (state_ == State::ended || (state_ == State::held && request.hold_for)) return;
                stop(request, now, out);
                if (is_settled() && !count_at_) count(now, out);
            },
            [&](const Recoverable& recoverable) {
                if (state_ == State::ended) return;
                notify(
                    recoverable.local_rank,
                    Worker::Recoverable{recoverable.is_recoverable},
                    now,
                    out);
            },
            [&](const Held& held) {
                const int rank = held.worker.local_rank;
                if (state_ != State::stopping) return;
                notify(rank, Worker::Held{}, now, out);
                if (!worker(rank).is_held()) return;
                held_[rank] = held.worker;
                if (is_settled() && !count_at_) count(now, out);
            },
            [&](KillRequested) {
                if (state_ == State::ended) return;
                begin_stopping(now, out);
                // Killed before: the time in which that has to help goes on.
                if (stuck_at_) return on_deadline(now, out);
                kill_all(now, out);
            },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
    check();
}

void WorkerGroup::stop(const StopRequested& request, Instant now, std::vector<Effect>& out) {
    hold_for_ = has_recoverable() ? request.hold_for.value_or(Duration{}) : Duration{};
    begin_stopping(now + hold_for_ + request.grace, out);
    if (!stuck_at_) signal_for_leftovers_ = request.signal;
    std::optional<Instant> signal_at;
    if (request.signal_after) signal_at = now + *request.signal_after;
    if (request.hold_for)
        notify_all(
            Worker::HoldRequested{now + hold_for_, request.signal, request.grace, signal_at},
            now,
            out);
    else
        notify_all(Worker::StopRequested{request.signal, *kill_at_, signal_at}, now, out);
}

void WorkerGroup::begin_stopping(Instant kill_at, std::vector<Effect>& out) {
    if (state_ == State::starting) out.push_back(CancelSpawns{});
    state_ = State::stopping;
    // Later requests can only shorten the grace.
    if (!stuck_at_ && (!kill_at_ || kill_at < *kill_at_)) kill_at_ = kill_at;
}

void WorkerGroup::after_exit(int local_rank, Instant now, std::vector<Effect>& out) {
    const auto is_success = [](const Worker& worker) { return worker.exit()->is_success(); };
    if (state_ == State::held) {
        out.push_back(KillLeftovers{});
        out.push_back(HeldAll{});
        return;
    }
    if (state_ == State::stopping) {
        if (is_settled()) count(now, out);
        return;
    }
    if (!is_success(worker(local_rank))) {
        out.push_back(Failed{local_rank});
        return;
    }
    if (gone_count_ < size() || !std::all_of(workers_.begin(), workers_.end(), is_success)) return;
    state_ = State::succeeded;
    out.push_back(Succeeded{});
}

void WorkerGroup::count(Instant now, std::vector<Effect>& out) {
    count_pause_ = count_pause_ == Duration{} ? first_count_pause
                                              : std::min(2 * count_pause_, longest_count_pause);
    count_at_ = now + count_pause_;
    out.push_back(CountLeftovers{});
}

void WorkerGroup::on_counted(int count, Instant now, std::vector<Effect>& out) {
    leftover_count_ = count;
    // The count is of no use in another state, or while a leader still lives.
    if (state_ != State::stopping || !is_settled()) return;
    if (count > 0) {
        if (!signal_for_leftovers_) return;
        out.push_back(SignalLeftovers{*signal_for_leftovers_});
        if (*signal_for_leftovers_ != SIGTERM) terminate_at_ = now + limits::leftovers_grace;
        signal_for_leftovers_.reset();
        return;
    }
    signal_for_leftovers_.reset();
    terminate_at_.reset();
    kill_at_.reset();
    count_at_.reset();
    count_pause_ = Duration{};
    stuck_at_.reset();
    state_ = held_.empty() ? State::ended : State::held;
    if (state_ == State::held)
        out.push_back(HeldAll{});
    else
        out.push_back(Ended{});
}

void WorkerGroup::kill_all(Instant now, std::vector<Effect>& out) {
    kill_at_.reset();
    stuck_at_ = now + limits::kill_descendants_timeout;
    signal_for_leftovers_.reset();
    terminate_at_.reset();
    notify_all(Worker::KillRequested{}, now, out);
    if (gone_count_ < size()) return;
    out.push_back(KillLeftovers{});
    count(now, out);
}

void WorkerGroup::on_deadline(Instant now, std::vector<Effect>& out) {
    if (kill_at_ && now >= *kill_at_) {
        if (held_.empty()) return kill_all(now, out);
        // What is held stays; any other worker that lives is killed at its own time.
        kill_at_.reset();
        if (is_settled()) {
            stuck_at_ = now + limits::kill_descendants_timeout;
            out.push_back(KillLeftovers{});
            return count(now, out);
        }
    }
    notify_all(Worker::DeadlinePassed{}, now, out);
    if (stuck_at_ && now >= *stuck_at_) {
        stuck_at_ = Instant::max();
        out.push_back(FoundStuck{living(), leftover_count_});
    }
    if (terminate_at_ && now >= *terminate_at_) {
        terminate_at_.reset();
        out.push_back(SignalLeftovers{SIGTERM});
    }
    if (count_at_ && now >= *count_at_) {
        // Killed again: a process that was killed while it forked may have left a child.
        if (stuck_at_) out.push_back(KillLeftovers{});
        count(now, out);
    }
}

void WorkerGroup::notify(
    int local_rank, Worker::Event event, Instant now, std::vector<Effect>& out) {
    std::vector<Worker::Effect> asked;
    workers_.at(static_cast<std::size_t>(local_rank)).handle(std::move(event), now, asked);
    for (const auto& effect : asked)
        std::visit(
            Overloaded{
                [&](const Worker::SignalLeader& e) {
                    out.push_back(SignalLeader{local_rank, e.signal});
                },
                [&](const Worker::SignalSession& e) {
                    out.push_back(SignalSession{local_rank, e.signal});
                },
                [&](Worker::KillSession) { out.push_back(KillSession{local_rank}); },
                [&](Worker::Hold) {
                    out.push_back(HoldWorker{local_rank, hold_for_});
                },
            },
            effect);
    if (!worker(local_rank).is_held()) held_.erase(local_rank);
}

void WorkerGroup::notify_all(const Worker::Event& event, Instant now, std::vector<Effect>& out) {
    for (int local_rank = 0; local_rank < size(); ++local_rank)
        notify(local_rank, event, now, out);
}

bool WorkerGroup::has_recoverable() const {
    return std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
        return worker.can_be_held();
    });
}

std::vector<control::KeptWorker> WorkerGroup::kept() const {
    std::vector<control::KeptWorker> workers;
    for (const auto& [local_rank, worker] : held_)
        workers.push_back(worker);
    return workers;
}

std::vector<int> WorkerGroup::pids() const {
    std::vector<int> pids;
    for (const auto& worker : workers_)
        pids.push_back(worker.exit() ? 0 : worker.pid());
    return pids;
}

std::vector<int> WorkerGroup::ended() const {
    std::vector<int> ranks;
    for (int local_rank = 0; local_rank < size(); ++local_rank)
        if (worker(local_rank).exit()) ranks.push_back(local_rank);
    return ranks;
}

std::vector<int> WorkerGroup::living() const {
    std::vector<int> ranks;
    for (int local_rank = 0; local_rank < size(); ++local_rank)
        if (!worker(local_rank).is_gone()) ranks.push_back(local_rank);
    return ranks;
}

std::optional<Instant> WorkerGroup::next_deadline() const {
    auto next = earliest(earliest(kill_at_, terminate_at_), count_at_);
    for (const auto& worker : workers_)
        next = earliest(next, worker.next_deadline());
    if (stuck_at_ && *stuck_at_ != Instant::max()) next = earliest(next, stuck_at_);
    return next;
}

void WorkerGroup::check() const {
    require(gone_count_ <= size(), "no more workers go than there are");
    require(state_ != State::ended || gone_count_ == size(), "a group ends after its last worker");
    require(state_ != State::held || is_settled(), "a held group has no running worker");
    require(
        (state_ != State::ended && state_ != State::held) || !next_deadline(),
        "a group that has ended, or is held, waits for nothing");
}

std::string describe(const WorkerGroup::Event& event) {
    const auto with_rank = [](const char* what, int local_rank) {
        return std::string{what} + " local_rank=" + std::to_string(local_rank);
    };
    return std::visit(
        Overloaded{
            [&](const WorkerGroup::Spawned& e) {
                return with_rank("spawned", e.local_rank) + " pid=" + std::to_string(e.pid);
            },
            [&](const WorkerGroup::Exited& e) {
                return with_rank("exited", e.local_rank) + ": " + e.exit.describe();
            },
            [](const WorkerGroup::LeftoversCounted& e) {
                return "leftovers counted: " + std::to_string(e.count);
            },
            [](const WorkerGroup::StopRequested& e) {
                return "stop requested with " + signal_name(e.signal) +
                       (e.signal_after ? "" : ", which they have") +
                       (e.hold_for ? ", or a hold" : "");
            },
            [&](const WorkerGroup::Recoverable& e) {
                return with_rank(
                    e.is_recoverable ? "recoverable" : "no longer recoverable", e.local_rank);
            },
            [&](const WorkerGroup::Held& e) { return with_rank("held", e.worker.local_rank); },
            [](WorkerGroup::KillRequested) { return std::string{"kill requested"}; },
            [](WorkerGroup::DeadlinePassed) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const WorkerGroup::Effect& effect) {
    const auto with_rank = [](const char* what, int local_rank) {
        return std::string{what} + " local_rank=" + std::to_string(local_rank);
    };
    return std::visit(
        Overloaded{
            [&](const WorkerGroup::SignalLeader& e) {
                return with_rank("signal leader", e.local_rank) + ' ' + signal_name(e.signal);
            },
            [&](const WorkerGroup::SignalSession& e) {
                return with_rank("signal session", e.local_rank) + ' ' + signal_name(e.signal);
            },
            [&](const WorkerGroup::KillSession& e) {
                return with_rank("kill session", e.local_rank);
            },
            [](WorkerGroup::CancelSpawns) { return std::string{"cancel spawns"}; },
            [](WorkerGroup::CountLeftovers) { return std::string{"count leftovers"}; },
            [](const WorkerGroup::SignalLeftovers& e) {
                return "signal leftovers " + signal_name(e.signal);
            },
            [](WorkerGroup::KillLeftovers) { return std::string{"kill leftovers"}; },
            [&](const WorkerGroup::HoldWorker& e) { return with_rank("hold", e.local_rank); },
            [](WorkerGroup::Started) { return std::string{"started"}; },
            [&](const WorkerGroup::Failed& e) { return with_rank("failed", e.local_rank); },
            [](WorkerGroup::Succeeded) { return std::string{"succeeded"}; },
            [](const WorkerGroup::FoundStuck& e) {
                return "found stuck: " + std::to_string(e.local_ranks.size()) + " workers, " +
                       std::to_string(e.leftover_count) + " others";
            },
            [](WorkerGroup::HeldAll) { return std::string{"held all"}; },
            [](WorkerGroup::Ended) { return std::string{"ended"}; },
        },
        effect);
}

std::string_view name_of(WorkerGroup::State state) {
    switch (state) {
        case WorkerGroup::State::starting: return "starting";
        case WorkerGroup::State::running: return "running";
        case WorkerGroup::State::succeeded: return "succeeded";
        case WorkerGroup::State::stopping: return "stopping";
        case WorkerGroup::State::held: return "held";
        case WorkerGroup::State::ended: return "ended";
    }
    return "?";
}

}  // namespace ddprun::agent
