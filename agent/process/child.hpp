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

/// A started process: forwards signals to it, and reports how it ended.
///
/// Waits for exactly this pid (on a pidfd, or without one with a thread) and reaps it, then calls
/// `on_exit` once. A signal is sent through the pidfd, or only while the process is not yet reaped.
/// So it can never hit a later process with the same number. Destroying a Child neither kills nor
/// waits; if it is destroyed early, `OrphanReaper` reaps the zombie. Used on the agent's thread
/// only.
class Child {
public:
    using OnExit = std::function<void(WorkerExit)>;

    /// Requires: `pid` is a child of this process for which no other code waits. Fails when neither
    /// a descriptor nor a thread can be had for it.
    static Result<Child> watch(boost::asio::io_context& io, pid_t pid, OnExit on_exit);

    Child(Child&&) noexcept;
    Child& operator=(Child&&) noexcept;
    ~Child();

    pid_t pid() const;
    bool has_exited() const;

    /// Signals only the process itself. Returns false when it has ended.
    bool signal_leader(int signal);
    /// Signals every descendant of this process that is in the child's session now, even if the
    /// leader is gone. Returns the number of these processes.
    int signal_session(int signal);
    /// Sends SIGKILL to the leader and its session, first to the processes below the leader: when
    /// the leader dies, they get another parent and belong to the leftovers.
    void kill_session();

private:
    struct State;
    explicit Child(std::shared_ptr<State> state);
    void release();

    std::shared_ptr<State> state_;
};

/// Reaps orphans that this subreaper inherits: grandchildren whose parent ended before them. Never
/// reaps children that other code watches. Lives on the agent's thread.
class OrphanReaper {
public:
    /// `watched` returns the pids for which other code waits at the time of the call.
    OrphanReaper(boost::asio::io_context& io, std::function<std::vector<pid_t>()> watched);

private:
    void wait();

    boost::asio::signal_set child_ended_;
    std::function<std::vector<pid_t>()> watched_;
};

}  // namespace ddprun::agent
