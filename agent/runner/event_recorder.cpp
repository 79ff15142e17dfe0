// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/event_recorder.hpp"

#include <chrono>
#include <utility>

namespace ddprun::agent {
namespace {

std::int64_t milliseconds(Duration length) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(length).count();
}

}  // namespace

EventRecorder::EventRecorder(const AgentConfig& config, Instant now)
    : config_(config),
      began_at_(now),
      waits_since_(now),
      file_(config.event_file) {}

void EventRecorder::assigned(const control::Assignment& assignment, Instant now) {
    assignment_ = assignment;
    pids_.assign(static_cast<std::size_t>(config_.worker.nproc), 0);
    auto met = event(Event::State::rendezvous, now);
    met.duration_ms = milliseconds(now - waits_since_);
    file_.write(std::move(met));
    // The ranks are known once the rendezvous has answered.
    auto ranked = event(Event::State::assign_worker_ranks, now);
    ranked.duration_ms = 0;
    file_.write(std::move(ranked));
}

void EventRecorder::worker_started(int local_rank, int pid, Instant now) {
    pids_.at(static_cast<std::size_t>(local_rank)) = pid;
    auto started = event(Event::State::start, now);
    started.worker = worker(local_rank);
    file_.write(std::move(started));
}

void EventRecorder::worker_ended(
    int local_rank, const WorkerExit& exit, bool is_expected, Instant now) {
    const auto state = exit.is_success() ? Event::State::succeeded
                       : is_expected     ? Event::State::terminated
                                         : Event::State::failed;
    auto ended = event(state, now);
    ended.worker = worker(local_rank);
    const auto signal = exit.signal();
    ended.worker->exit_code = signal ? -*signal : exit.shell_code();
    if (state == Event::State::failed) ended.error = exit.describe();
    file_.write(std::move(ended));
}

void EventRecorder::round_left(Instant now) {
    waits_since_ = now;
}

void EventRecorder::finished(const JobReport& report, Instant now) {
    const bool is_success = report.outcome == control::Outcome::succeeded;
    auto last = event(is_success ? Event::State::succeeded : Event::State::failed, now);
    if (!is_success) last.error = report.root_cause ? report.root_cause->reason : report.reason;
    file_.write(std::move(last));
}

Event EventRecorder::event(Event::State state, Instant now) const {
    Event event;
    event.state = state;
    event.run_id = config_.join.run_id;
    event.role = config_.worker.role;
    event.host = config_.join.node.host;
    // Only the last part of the path, as in torchelastic.
    event.entry_point = config_.worker.program.substr(config_.worker.program.rfind('/') + 1);
    event.total_seconds = milliseconds(now - began_at_) / 1000;
    if (!assignment_) return event;
    event.group_rank = assignment_->group_rank;
    event.group_world_size = assignment_->group_world_size;
    event.round = assignment_->round;
    event.restarts = assignment_->restart_count;
    return event;
}

Event::Worker EventRecorder::worker(int local_rank) const {
    return {
        local_rank,
        assignment_->rank_base + local_rank,
        assignment_->role_rank_base + local_rank,
        assignment_->role_world_size,
        pids_.at(static_cast<std::size_t>(local_rank)),
        std::nullopt};
}

}  // namespace ddprun::agent
