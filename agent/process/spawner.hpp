// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/process/spawn.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace ddprun::agent {

/// The thread that starts processes, so that the agent's never waits for a program start.
///
/// Lives as long as the agent: the kernel kills the processes that it started when this thread ends
/// (a protection in addition to the keeper; no Spawner is destroyed while workers run). All calls,
/// and all calls of `on_spawned`, belong to the agent's thread.
class Spawner {
public:
    struct Outcome {
        int index = 0;
        Result<pid_t> pid;
    };
    using OnSpawned = std::function<void(Outcome)>;

    /// Outcomes are posted to `agent`.
    explicit Spawner(boost::asio::io_context& agent);
    /// Waits for the program start in progress. Starts that have not begun are dropped without an
    /// outcome.
    ~Spawner();
    Spawner(const Spawner&) = delete;
    Spawner& operator=(const Spawner&) = delete;

    /// Starts the specs in order, after earlier batches. Each of them gets exactly one outcome,
    /// posted as soon as it is known; `index` counts from 0 within the batch. `on_spawned` must not
    /// refer to anything that is destroyed before its last call. `before_first` runs on the
    /// spawner's thread; it must own what it uses.
    void start(
        std::vector<SpawnSpec> batch,
        OnSpawned on_spawned,
        std::function<void()> before_first = [] {});

    /// Specs that have not been started yet get the outcome operation_aborted. The start in
    /// progress still reports its pid: a caller that cancels in order to kill must wait for all
    /// outcomes.
    void cancel();

private:
    void start_each(
        const std::vector<SpawnSpec>& batch,
        const std::shared_ptr<const OnSpawned>& on_spawned,
        std::uint64_t epoch);

    boost::asio::io_context& agent_;
    boost::asio::io_context queue_;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
    /// Batches of earlier epochs are cancelled.
    std::atomic<std::uint64_t> epoch_{0};
    std::atomic<bool> is_ending_{false};
    std::thread thread_;
};

}  // namespace ddprun::agent
