// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/worker_exit.hpp"
#include "rendezvous/base/result.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include <sys/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace ddprun::agent {

/// A process we started, from its pid on: gets signals, and reports how it ended.
///
/// Waits for exactly this pid (on a pidfd, or with a thread where there is none) and reaps it, then
/// calls `on_exit` once. A signal goes through the pidfd, or to a process that is not yet reaped,
/// so it can never hit another one that got the number later. Destroying a Child neither kills nor
/// waits; done early, it leaves a zombie to `OrphanReaper`. Used on the agent's thread only.
class Child {
public:
    using OnExit = std::function<void(WorkerExit)>;

    /// Requires: `pid` is a child of this process that nothing else waits for. Fails when there is
    /// neither a descriptor for it nor a thread.
    static Result<Child> watch(boost::asio::io_context& io, pid_t pid, OnExit on_exit);

    Child(Child&&) noexcept;
    Child& operator=(Child&&) noexcept;
    ~Child();

    pid_t pid() const;
    bool has_exited() const;

    /// To the process alone. False when it is gone.
    bool signal_leader(int signal);
    /// To every process that is in its session now, the leader gone or not, if it descends from us.
    /// Returns how many that were.
    int signal_session(int signal);
    /// SIGKILL to both. What is below the leader first: when it dies they move, and are then among
    /// the leftovers.
    void kill_session();

private:
    struct State;
    explicit Child(std::shared_ptr<State> state);
    void release();

    std::shared_ptr<State> state_;
};

/// Reaps the orphans that a subreaper is given: grandchildren whose parent ended before them. Never
/// touches children that are watched elsewhere. Lives on the agent's thread.
class OrphanReaper {
public:
    /// `watched` returns, at the moment of the call, the pids that are waited for elsewhere.
    OrphanReaper(boost::asio::io_context& io, std::function<std::vector<pid_t>()> watched);

private:
    void wait();

    boost::asio::signal_set child_ended_;
    std::function<std::vector<pid_t>()> watched_;
};

}  // namespace ddprun::agent
