// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/worker_env.hpp"
#include "agent/supervise/terminal_interrupts.hpp"
#include "agent/supervise/worker_exit.hpp"
#include "rendezvous/base/time.hpp"

namespace ddprun::agent {

class WorkerProcesses;  // worker_processes.hpp

/// Passes signals to the rank that has the standard input of `ddprun` (--attach), if that rank runs
/// on this node. TerminalInterrupts decides which Ctrl-C the rank gets. Without --attach this class
/// has no effect. Lives on the agent's thread; the references must outlive it.
class AttachedRank {
public:
    /// `grace`: the job's grace, for the log.
    AttachedRank(const WorkerSpec& spec, Duration grace, WorkerProcesses& workers);
    AttachedRank(const AttachedRank&) = delete;
    AttachedRank& operator=(const AttachedRank&) = delete;

    /// Called when a round is about to start its workers: logs once which rank is attached.
    void announce(const RoundPlan& plan);
    /// True: the signal was for the rank, and has been sent to it. The rank gets every SIGWINCH,
    /// and each Ctrl-C that is not for the job. `is_stopping`: the round's workers are being
    /// stopped.
    bool take(int signal, bool is_stopping, Instant now);
    /// Whether this exit is the attached rank's death by a Ctrl-C: then the job ends too.
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
