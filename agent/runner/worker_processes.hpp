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

/// The processes of this node's current round: starts them, watches them, signals them as ordered.
/// Lives on the agent's thread. Why is not decided here.
class WorkerProcesses {
public:
    using OnEvent = std::function<void(Agent::Event)>;
    /// A child of this process that is no worker and is waited for elsewhere; none: there is none.
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

    /// Every worker of a round. Requires: nothing is left of the one before. `before_first`: as for
    /// Spawner::start.
    void spawn(const RoundPlan& plan, std::function<void()> before_first);
    /// In place of `spawn`: none of them can be started, for this reason.
    void refuse(const std::string& reason);
    void cancel_spawns() { spawner_.cancel(); }

    void signal_leader(int local_rank, int signal);
    void signal_session(int local_rank, int signal);
    void kill_session(int local_rank);
    /// Living processes below this one that are not leaders.
    int count_leftovers();
    void signal_leftovers(int signal);
    void kill_leftovers();
    /// Whether the rank that has the terminal has a process.
    bool has_attached() const;
    /// As the terminal would, were it the worker's own: to its whole process group.
    void signal_attached(int signal);
    /// A signal of --signals-to-forward, to the leaders.
    void forward(int signal);
    /// To one leader.
    /// False: it has ended. One that is being started gets the signal once it runs.
    bool pass_signal(int local_rank, int signal);
    /// Nothing: it has ended, or is being started.
    std::optional<pid_t> pid_of(int local_rank) const;
    /// Ctrl-Z: every process below this one stops, also those that are started meanwhile.
    void suspend();
    bool is_suspended() const { return is_suspended_; }
    void go_on();
    /// The round's last process is gone.
    void forget();
    /// A worker has shown its first step.
    void step_seen();

    /// The writer has room again.
    void resume_output();
    /// The last lines of its standard error; empty where it inherited ours.
    std::string stderr_tail(int local_rank) const;

private:
    struct Process {
        std::optional<Child> child;
        /// To be forwarded to it, and came before we knew it.
        std::set<int> early_signals;
        WorkerOutput output;
    };

    SpawnSpec spawn_spec(const RoundPlan& plan, int local_rank) const;
    void on_spawned(const Spawner::Outcome& outcome);
    Result<Child> take_child(int local_rank, pid_t pid);
    void on_exited(int local_rank, WorkerExit exit);
    /// Children that are waited for by their pids.
    std::vector<pid_t> watched() const;
    /// Of workers that run or are parked.
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
    /// Of the current round; -1: all inherit standard input, or it goes to another node's rank.
    int attached_local_rank_ = -1;
    /// Where a worker has it.
    std::optional<Terminal> terminal_;
    /// The standard input of the others; -1: they inherit it.
    int no_input_ = -1;
    std::vector<Process> processes_;
    /// Of the last round.
    std::optional<RoundPlan> plan_;
    /// With --warm.
    std::optional<ParkedWorkers> parked_;
    OrphanReaper reaper_;
    // Last: its thread ends first, and with it what it started.
    Spawner spawner_;
};

}  // namespace ddprun::agent
