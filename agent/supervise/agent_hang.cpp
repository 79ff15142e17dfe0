// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"
#include "rendezvous/control/versions.hpp"

#include <string>
#include <utility>

/// The part of `Agent` that looks at its workers, and obeys what the server concludes.
namespace ddprun::agent {
/// A worker with a terminal waits for its user.
void Agent::begin_watch(Instant now) {
    const auto& settings = config_.join.settings;
    if (!settings.hang_after || config_.worker.attachment) return;
    round_->watch.emplace(*settings.hang_after, settings.look_interval(), now);
}

std::optional<Instant> Agent::look_at() const {
    const bool counts = phase_ == Phase::running && round_ && round_->watch;
    return counts ? round_->watch->look_at() : std::nullopt;
}

void Agent::look_at_workers(Instant now, Effects& out) {
    round_->watch->on_look_begun(now);
    out.push_back(LookAtWorkers{round_->assignment.round, group()->pids()});
}

void Agent::on_workers_seen(WorkersSeen seen, Instant now, Effects& out) {
    const bool counts = is_current(seen.round) && phase_ == Phase::running && round_->watch;
    if (!counts) return;
    auto& watch = *round_->watch;
    watch.on_looked(std::move(seen.looks), round_->progress.known, now);
    if (!link_.is_admitted() || link_.version() < control::hang_since) return;
    control::Heartbeat heartbeat{0};
    heartbeat.sites = watch.sites(seen.round, config_.worker.nproc, group()->ended());
    send(std::move(heartbeat), out);
}

void Agent::on_hang_found(control::HangFound found, Instant now, Effects& out) {
    const bool counts = is_current(found.round) && phase_ == Phase::running;
    if (!counts) return note_stale("hang of round " + std::to_string(found.round), out);
    out.push_back(NoteHang{found.round, found.headline, std::move(found.rows)});
    if (found.killed.empty()) return;
    notify_failures(FailureReport::HangFound{found.killed, found.headline}, now, out);
    for (const int local_rank : found.killed)
        if (local_rank < group()->size() && !group()->worker(local_rank).exit())
            out.push_back(WorkerGroup::KillSession{local_rank});
}

}  // namespace ddprun::agent
