// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/worker_env.hpp"
#include "agent/process/child.hpp"
#include "agent/process/spawner.hpp"
#include "agent/workers/parked.hpp"
#include "rendezvous/net/driver.hpp"

#include <boost/asio/io_context.hpp>

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace ddprun::agent {

/// The node's parked processes: the shell of `Parked`. Lives on the agent's thread.
class ParkedWorkers {
public:
    /// Returns how to start the process of a local rank, without its standard streams.
    using SpecOf = std::function<SpawnSpec(int local_rank)>;
    using OnExit = std::function<void(WorkerExit)>;

    /// `spawner` must outlive the use of this object.
    ParkedWorkers(boost::asio::io_context& io, Spawner& spawner, int count, SpecOf spec_of);
    ParkedWorkers(const ParkedWorkers&) = delete;
    ParkedWorkers& operator=(const ParkedWorkers&) = delete;

    void workers_started() { machine_.post(Parked::WorkersStarted{}); }
    void step_seen() { machine_.post(Parked::StepSeen{}); }
    void round_ended() { machine_.post(Parked::RoundEnded{}); }

    /// The process parked for this local rank, if there is one; `settle` must follow.
    std::optional<SpawnSpec::Parked> take(int local_rank);
    /// `pid`: the process that got the place; 0: none. If this is the parked process, returns its
    /// Child and reports its end to `on_exit`.
    std::optional<Child> settle(int local_rank, pid_t pid, OnExit on_exit);

    std::vector<pid_t> pids() const;

private:
    struct Process;
    using Held = std::shared_ptr<Process>;

    void perform(Parked::Effect& effect);
    void start(int local_rank);
    void on_spawned(int local_rank, const Held& process, const Result<pid_t>& pid);
    void read_report(int local_rank, const Held& process);
    void on_report(int local_rank, const Held& process);
    void read_output(const Held& process);
    bool is_current(int local_rank, const Held& process) const;

    boost::asio::io_context& io_;
    Spawner& spawner_;
    SpecOf spec_of_;
    /// By local rank.
    std::vector<Held> processes_;
    net::Driver<Parked> machine_;
};

}  // namespace ddprun::agent
