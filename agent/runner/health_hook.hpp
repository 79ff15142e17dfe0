// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/process/child.hpp"
#include "agent/process/inherited_state.hpp"
#include "agent/process/spawner.hpp"
#include "agent/supervise/agent_interface.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <sys/types.h>

#include <array>
#include <functional>
#include <optional>
#include <string>

namespace ddprun::agent {

/// Runs the command of --health-check by `/bin/sh -c`, in its own session, with the workers'
/// environment and DDPRUN_HEALTH_REASON. The command's standard output is read here; its standard
/// error is that of ddprun. When the command ends or its time is over, all processes left in its
/// session are killed. Lives on the agent's thread.
class HealthHook {
public:
    using OnAnswer = std::function<void(AgentInterface::HealthChecked)>;

    /// `config` and `start` must outlive this object.
    HealthHook(
        boost::asio::io_context& io,
        const AgentConfig& config,
        const InheritedState& start,
        OnAnswer on_answer);

    /// Requires: there is a command, and the previous check has been answered.
    void run(AgentInterface::CheckHealth::Reason reason);
    /// The pid of the running command, which no other code may reap; none: no command runs.
    std::optional<pid_t> pid() const;

private:
    using Checked = AgentInterface::HealthChecked;

    void limit_time(Duration limit);
    void on_spawned(int number, const Spawner::Outcome& outcome);
    void on_exited(const WorkerExit& exit);
    void read();
    void take_output();
    void answer(Checked checked);
    void kill();

    boost::asio::io_context& io_;
    const AgentConfig& config_;
    const InheritedState& start_;
    OnAnswer on_answer_;
    boost::asio::steady_timer timer_;
    boost::asio::posix::stream_descriptor output_;
    std::array<char, 4096> buffer_{};
    /// The first line of the output; a longer one is cut.
    std::string first_line_;
    bool has_first_line_ = false;
    /// The number of the newest check: an outcome of an older one may come late.
    int number_ = 0;
    bool is_running_ = false;
    /// The time limit has passed, and the command was killed.
    bool is_late_ = false;
    std::optional<Child> child_;
    // Last member, so that its thread ends first. Empty before the first check.
    std::optional<Spawner> spawner_;
};

/// Interprets an exit. `output`: the first line of the command's standard output.
AgentInterface::HealthChecked health_answer(const WorkerExit& exit, const std::string& output);

}  // namespace ddprun::agent
