// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/worker_processes.hpp"

#include "agent/process/descendants.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/start_failure.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace ddprun::agent {
namespace {

WorkerExit exit_of_unstarted(const Failure& failure, const std::string& program) {
    if (is_about_program(failure))
        return WorkerExit{WorkerExit::NotExecuted{failure.code.value(), program}};
    return WorkerExit{
        WorkerExit::NotStarted{describe_start_failure(failure.code, failure.describe())}};
}

}  // namespace

WorkerProcesses::WorkerProcesses(
    boost::asio::io_context& io,
    const WorkerSpec& spec,
    const OutputPlan& output,
    const InheritedState& start,
    Writer& writer,
    KeeperLink& keeper,
    StreamRelay::Observer on_progress_output,
    OnEvent on_event,
    OtherChild other_child)
    : io_(io),
      spec_(spec),
      output_plan_(output),
      start_(start),
      writer_(writer),
      keeper_(keeper),
      on_progress_output_(std::move(on_progress_output)),
      on_event_(std::move(on_event)),
      other_child_(std::move(other_child)),
      reaper_(io, [this] { return watched(); }),
      spawner_(io) {
    if (!spec_.bootstrap.empty())
        parked_.emplace(io, spawner_, spec_.nproc, [this](int local_rank) {
            auto parked = spawn_spec(*plan_, local_rank);
            parked.arguments = parked_arguments(spec_, *plan_, local_rank);
            parked.environment = parked_environment(spec_, *plan_, local_rank);
            parked.folder_to_make.clear();
            return parked;
        });
    if (!spec_.attachment) return;
    no_input_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (spec_.attachment->has_terminal) terminal_.emplace();
}

WorkerProcesses::~WorkerProcesses() {
    if (no_input_ >= 0) ::close(no_input_);
}

void WorkerProcesses::spawn(
    const RoundPlan& plan, const std::vector<int>& kept, std::function<void()> before_first) {
    processes_.resize(static_cast<std::size_t>(spec_.nproc));
    std::vector<int> fresh;
    for (int local_rank = 0; local_rank < spec_.nproc; ++local_rank) {
        if (std::find(kept.begin(), kept.end(), local_rank) != kept.end()) continue;
        fresh.push_back(local_rank);
        processes_[static_cast<std::size_t>(local_rank)] = {};
    }
    if (parked_) plan_ = plan;
    attached_local_rank_ = attached_local_rank(spec_, plan).value_or(-1);
    RoundOutput outputs(io_, writer_, output_plan_, spec_, plan, on_progress_output_);
    std::vector<SpawnSpec> batch;
    batch.reserve(fresh.size());
    for (const int local_rank : fresh) {
        auto& output = processes_[static_cast<std::size_t>(local_rank)].output;
        output = outputs.open(local_rank);
        auto spec = spawn_spec(plan, local_rank);
        spec.standard_output = output.worker_end(Stream::out);
        spec.standard_error = output.worker_end(Stream::err);
        if (parked_) spec.parked = parked_->take(local_rank);
        batch.push_back(std::move(spec));
    }
    for (const int local_rank : kept) {
        outputs.redirect(local_rank, processes_[static_cast<std::size_t>(local_rank)].output);
        report_kept(local_rank);
    }
    spawner_.start(
        std::move(batch),
        [this, fresh](const Spawner::Outcome& outcome) {
            on_spawned(fresh.at(static_cast<std::size_t>(outcome.index)), outcome.pid);
        },
        std::move(before_first));
}

void WorkerProcesses::refuse(const std::vector<int>& kept, const std::string& reason) {
    processes_.resize(static_cast<std::size_t>(spec_.nproc));
    for (int local_rank = 0; local_rank < spec_.nproc; ++local_rank) {
        if (std::find(kept.begin(), kept.end(), local_rank) != kept.end()) {
            report_kept(local_rank);
            continue;
        }
        processes_[static_cast<std::size_t>(local_rank)] = {};
        on_event_(Agent::WorkerExited{local_rank, WorkerExit{WorkerExit::NotStarted{reason}}});
    }
}

/// Its process goes on in the round, unless its end is already on the way to the agent.
void WorkerProcesses::report_kept(int local_rank) {
    const auto& child = processes_.at(static_cast<std::size_t>(local_rank)).child;
    if (!child || child->has_exited()) return;
    on_event_(Agent::WorkerSpawned{local_rank, child->pid()});
    on_event_(Agent::WorkerRecoverable{local_rank, true});
}

SpawnSpec WorkerProcesses::spawn_spec(const RoundPlan& plan, int local_rank) const {
    SpawnSpec spec;
    spec.program = worker_program(spec_, plan, local_rank);
    spec.arguments = worker_arguments(spec_, plan, local_rank);
    spec.environment = worker_environment(spec_, plan, local_rank);
    spec.start = start_;
    if (local_rank != attached_local_rank_) spec.standard_input = no_input_;
    const auto index = static_cast<std::size_t>(local_rank);
    if (index < spec_.bindings.size()) spec.binding = spec_.bindings[index];
    if (!plan.logs.is_none())
        spec.folder_to_make =
            plan.logs.of_worker(local_rank, plan.assignment.rank_base + local_rank);
    return spec;
}

void WorkerProcesses::on_spawned(int local_rank, const Result<pid_t>& spawned) {
    auto& process = processes_.at(static_cast<std::size_t>(local_rank));
    process.output.close_worker_ends();
    if (!spawned) {
        if (parked_) parked_->settle(local_rank, 0, {});
        log::debug("worker.not_started", {{"reason", spawned.error().describe()}});
        return on_event_(
            Agent::WorkerExited{local_rank, exit_of_unstarted(spawned.error(), spec_.program)});
    }
    const pid_t pid = *spawned;
    auto child = take_child(local_rank, pid);
    if (!child) {
        // The end of this process could not be detected: a missing worker is better than an
        // unwatched one.
        ::kill(pid, SIGKILL);
        log::error("worker.not_watched", {{"reason", child.error().describe()}});
        return on_event_(Agent::WorkerExited{
            local_rank, WorkerExit{WorkerExit::NotStarted{child.error().describe()}}});
    }
    process.child = std::move(*child);
    keeper_.note_session(local_rank, pid);
    if (is_suspended_) process.child->signal_leader(SIGSTOP);
    for (const int signal : process.early_signals)
        process.child->signal_leader(signal);
    on_event_(Agent::WorkerSpawned{local_rank, pid});
    if (!parked_) return;
    const bool is_last = std::all_of(processes_.begin(), processes_.end(), [](const Process& each) {
        return each.child.has_value();
    });
    if (is_last) parked_->workers_started();
}

/// The process that has the place of this local rank: newly started, or parked before.
Result<Child> WorkerProcesses::take_child(int local_rank, pid_t pid) {
    const auto on_exit = [this, local_rank](WorkerExit exit) {
        on_exited(local_rank, std::move(exit));
    };
    if (parked_)
        if (auto child = parked_->settle(local_rank, pid, on_exit)) return std::move(*child);
    return Child::watch(io_, pid, on_exit);
}

void WorkerProcesses::on_exited(int local_rank, WorkerExit exit) {
    auto& process = processes_.at(static_cast<std::size_t>(local_rank));
    process.output.finish();
    if (terminal_ && local_rank == attached_local_rank_) terminal_->reset();
    on_event_(Agent::WorkerExited{local_rank, std::move(exit)});
}

void WorkerProcesses::signal_leader(int local_rank, int signal) {
    auto& child = processes_.at(static_cast<std::size_t>(local_rank)).child;
    if (!child) return;
    child->signal_leader(signal);
    child->signal_leader(SIGCONT);
}

void WorkerProcesses::signal_session(int local_rank, int signal) {
    auto& child = processes_.at(static_cast<std::size_t>(local_rank)).child;
    // A walk through all processes for each of many workers would take longer than stopping them.
    if (!child || !has_orphans()) return;
    child->signal_session(signal);
    child->signal_session(SIGCONT);
}

void WorkerProcesses::kill_session(int local_rank) {
    auto& child = processes_.at(static_cast<std::size_t>(local_rank)).child;
    if (child) child->kill_session();
}

int WorkerProcesses::count_leftovers() {
    const auto leaders = living_leaders();
    reap_orphans(leaders);
    // If there is no child, no leftover of a round can exist.
    if (leaders.empty() && !has_any_child()) return 0;
    const int count = signal_descendants(0, leaders);
    // The kernel's list of children may miss a process that moves while the list is read, so an
    // empty list is read twice.
    return count > 0 ? count : signal_descendants(0, leaders);
}

void WorkerProcesses::signal_leftovers(int signal) {
    signal_descendants(signal, living_leaders());
    signal_descendants(SIGCONT, living_leaders());
}

void WorkerProcesses::kill_leftovers() {
    signal_descendants(SIGKILL, living_leaders());
}

bool WorkerProcesses::has_attached() const {
    if (attached_local_rank_ < 0 || processes_.empty()) return false;
    const auto& child = processes_.at(static_cast<std::size_t>(attached_local_rank_)).child;
    return child && !child->has_exited();
}

void WorkerProcesses::signal_attached(int signal) {
    if (attached_local_rank_ < 0 || processes_.empty()) return;
    auto& process = processes_.at(static_cast<std::size_t>(attached_local_rank_));
    // The process may run already, although its pid is not known here yet: the signal is kept.
    if (!process.child) {
        process.early_signals.insert(signal);
        return;
    }
    // The process is not reaped yet, so no other group has its number.
    if (!process.child->has_exited()) ::kill(-process.child->pid(), signal);
}

void WorkerProcesses::forward(int signal) {
    for (std::size_t local_rank = 0; local_rank < processes_.size(); ++local_rank)
        pass_signal(static_cast<int>(local_rank), signal);
}

bool WorkerProcesses::pass_signal(int local_rank, int signal) {
    auto& process = processes_.at(static_cast<std::size_t>(local_rank));
    if (process.child) return process.child->signal_leader(signal);
    process.early_signals.insert(signal);
    return true;
}

std::optional<pid_t> WorkerProcesses::pid_of(int local_rank) const {
    const auto& child = processes_.at(static_cast<std::size_t>(local_rank)).child;
    if (!child || child->has_exited()) return std::nullopt;
    return child->pid();
}

void WorkerProcesses::suspend() {
    is_suspended_ = true;
    stop_descendants(limits::stop_descendants_timeout);
    if (terminal_) terminal_->hand_over();
}

void WorkerProcesses::go_on() {
    is_suspended_ = false;
    if (terminal_) terminal_->take_back();
    signal_descendants(SIGCONT);
}

void WorkerProcesses::forget() {
    for (int local_rank = 0; local_rank < spec_.nproc; ++local_rank)
        keeper_.note_session(local_rank, 0);
    if (parked_) parked_->round_ended();
}

void WorkerProcesses::step_seen() {
    if (parked_) parked_->step_seen();
}

void WorkerProcesses::resume_output() {
    for (auto& process : processes_)
        process.output.resume();
}

std::string WorkerProcesses::stderr_tail(int local_rank) const {
    return processes_.at(static_cast<std::size_t>(local_rank)).output.stderr_tail();
}

std::vector<pid_t> WorkerProcesses::watched() const {
    auto pids = living_leaders();
    if (const auto other = other_child_()) pids.push_back(*other);
    return pids;
}

std::vector<pid_t> WorkerProcesses::living_leaders() const {
    auto pids = parked_ ? parked_->pids() : std::vector<pid_t>{};
    for (const auto& process : processes_)
        if (process.child && !process.child->has_exited()) pids.push_back(process.child->pid());
    return pids;
}

bool WorkerProcesses::has_orphans() const {
    if (!has_any_child()) return false;
    const auto leaders = living_leaders();
    std::vector<pid_t> children(processes_.size() + leaders.size() + 1);
    const int count = list_children(children);
    if (count < 0 || static_cast<std::size_t>(count) > children.size()) return true;
    children.resize(static_cast<std::size_t>(count));
    return std::any_of(children.begin(), children.end(), [&](pid_t pid) {
        return std::find(leaders.begin(), leaders.end(), pid) == leaders.end();
    });
}

}  // namespace ddprun::agent
