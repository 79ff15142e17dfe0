// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/worker_env.hpp"
#include "agent/supervise/terminal_interrupts.hpp"
#include "agent/supervise/worker_exit.hpp"
#include "rendezvous/base/time.hpp"

namespace ddprun::agent {

class WorkerProcesses;  // worker_processes.hpp

/// The rank that has the standard input of `ddprun` (--attach), where it is one of this node: which
/// signals it gets, as a TerminalInterrupts decides. Without --attach it has no effect. Lives on
/// the agent's thread; the references must outlive it.
class AttachedRank {
public:
    /// `grace` is the job's.
    AttachedRank(const WorkerSpec& spec, Duration grace, WorkerProcesses& workers);
    AttachedRank(const AttachedRank&) = delete;
    AttachedRank& operator=(const AttachedRank&) = delete;

    /// A round is about to start its workers: the log names the rank, once.
    void announce(const RoundPlan& plan);
    /// Whether the signal was for the rank, which has got it then: a window that changes its size,
    /// and a Ctrl-C that is not for the job. `is_stopping`: the round's workers are being stopped.
    bool take(int signal, bool is_stopping, Instant now);
    /// Whether a worker's end is that of the rank by a Ctrl-C: it ends the job, too.
    bool ends_job(const RoundPlan& plan, int local_rank, const WorkerExit& exit) const;

private:
    bool is_for_rank(int signal, bool is_stopping, Instant now);

    const WorkerSpec& spec_;
    Duration grace_;
    WorkerProcesses& workers_;
    TerminalInterrupts interrupts_;
    bool has_announced_ = false;
};

}  // namespace ddprun::agent
