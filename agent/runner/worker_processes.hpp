// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/keeper/keeper_link.hpp"
#include "agent/output/round_output.hpp"
#include "agent/output/writer.hpp"
#include "agent/plan/worker_env.hpp"
#include "agent/process/child.hpp"
#include "agent/process/spawner.hpp"
#include "agent/process/terminal.hpp"
#include "agent/runner/parked_workers.hpp"
#include "agent/supervise/agent.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::agent {

/// The processes of this node's current round: starts, watches and signals them as ordered, and
/// decides nothing. Lives on the agent's thread.
class WorkerProcesses {
public:
    using OnEvent = std::function<void(Agent::Event)>;
    /// A child of this process that is no worker and for which other code waits; none: there is no
    /// such child.
    using OtherChild = std::function<std::optional<pid_t>()>;

    WorkerProcesses(
        boost::asio::io_context& io,
        const WorkerSpec& spec,
        const OutputPlan& output,
        const InheritedState& start,
        Writer& writer,
        KeeperLink& keeper,
        StreamRelay::Observer on_progress_output,
        OnEvent on_event,
        OtherChild other_child);
    ~WorkerProcesses();
    WorkerProcesses(const WorkerProcesses&) = delete;
    WorkerProcesses& operator=(const WorkerProcesses&) = delete;

    /// Starts every worker of a round but the kept ones, whose output goes to its place in this
    /// round from now on. Requires: no other process of the previous round is left. `before_first`:
    /// see Spawner::start.
    void spawn(
        const RoundPlan& plan, const std::vector<int>& kept, std::function<void()> before_first);
    /// Called in place of `spawn`: reports for each worker that is not kept that it cannot be
    /// started, for this reason.
    void refuse(const std::vector<int>& kept, const std::string& reason);
    void cancel_spawns() { spawner_.cancel(); }

    void signal_leader(int local_rank, int signal);
    void signal_session(int local_rank, int signal);
    void kill_session(int local_rank);
    /// The number of living descendants that are not leaders.
    int count_leftovers();
    void signal_leftovers(int signal);
    void kill_leftovers();
    /// Whether the attached rank (--attach) has a process.
    bool has_attached() const;
    /// Signals the attached rank's whole process group, as its own terminal would.
    void signal_attached(int signal);
    /// Sends a signal of --signals-to-forward to the leaders.
    void forward(int signal);
    /// Signals one leader. False: it has ended. A process that is being started gets the signal
    /// once it runs.
    bool pass_signal(int local_rank, int signal);
    /// None: the worker has ended, or is being started.
    std::optional<pid_t> pid_of(int local_rank) const;
    /// For Ctrl-Z: stops every descendant, including processes that are started meanwhile.
    void suspend();
    bool is_suspended() const { return is_suspended_; }
    void go_on();
    /// Call when the round's last process has ended.
    void forget();
    /// Call when a worker has reported its first step.
    void step_seen();

    /// Call when the writer has room again.
    void resume_output();
    /// The last lines of the worker's standard error; empty if it inherited the agent's.
    std::string stderr_tail(int local_rank) const;

private:
    struct Process {
        std::optional<Child> child;
        /// Signals to forward that came before the process was known.
        std::set<int> early_signals;
        WorkerOutput output;
    };

    SpawnSpec spawn_spec(const RoundPlan& plan, int local_rank) const;
    void on_spawned(int local_rank, const Result<pid_t>& spawned);
    void report_kept(int local_rank);
    Result<Child> take_child(int local_rank, pid_t pid);
    void on_exited(int local_rank, WorkerExit exit);
    /// The children that are waited for by pid: `reaper_` must not reap them.
    std::vector<pid_t> watched() const;
    /// The leaders of running and parked workers.
    std::vector<pid_t> living_leaders() const;
    bool has_orphans() const;

    boost::asio::io_context& io_;
    const WorkerSpec& spec_;
    const OutputPlan& output_plan_;
    const InheritedState& start_;
    Writer& writer_;
    KeeperLink& keeper_;
    StreamRelay::Observer on_progress_output_;
    OnEvent on_event_;
    OtherChild other_child_;
    bool is_suspended_ = false;
    /// For the current round; -1: all workers inherit standard input, or another node's rank has
    /// it.
    int attached_local_rank_ = -1;
    /// Set if a worker has the terminal.
    std::optional<Terminal> terminal_;
    /// The standard input of the workers without attachment; -1: they inherit the agent's.
    int no_input_ = -1;
    std::vector<Process> processes_;
    /// The plan of the last round.
    std::optional<RoundPlan> plan_;
    /// Set with --warm.
    std::optional<ParkedWorkers> parked_;
    OrphanReaper reaper_;
    // Last member: its thread ends first, and with it the processes that it started.
    Spawner spawner_;
};

}  // namespace ddprun::agent
