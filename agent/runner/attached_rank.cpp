// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/attached_rank.hpp"

#include "agent/runner/effect_log.hpp"
#include "agent/runner/worker_processes.hpp"

#include <csignal>

namespace ddprun::agent {

AttachedRank::AttachedRank(const WorkerSpec& spec, Duration grace, WorkerProcesses& workers)
    : spec_(spec),
      grace_(grace),
      workers_(workers) {}

void AttachedRank::announce(const RoundPlan& plan) {
    if (has_announced_ || !attached_local_rank(spec_, plan)) return;
    has_announced_ = true;
    log_attachment(*spec_.attachment, grace_);
}

bool AttachedRank::take(int signal, bool is_stopping, Instant now) {
    if (!is_for_rank(signal, is_stopping, now)) return false;
    workers_.signal_attached(signal);
    return true;
}

bool AttachedRank::is_for_rank(int signal, bool is_stopping, Instant now) {
    const auto& attachment = spec_.attachment;
    if (!attachment || !attachment->has_terminal) return false;
    if (signal == SIGWINCH) return true;
    if (signal != SIGINT) return false;
    const bool has_rank = workers_.has_attached() && !is_stopping;
    return interrupts_.next(has_rank, now) == TerminalInterrupts::Receiver::rank;
}

bool AttachedRank::ends_job(const RoundPlan& plan, int local_rank, const WorkerExit& exit) const {
    return local_rank == attached_local_rank(spec_, plan) && interrupts_.is_for_job(exit);
}

}  // namespace ddprun::agent
