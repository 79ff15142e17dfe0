// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/report/job_report.hpp"
#include "agent/supervise/failure_report.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <string>
#include <variant>

namespace ddprun::agent {

/// The rendezvous server has gone, or was never reached.
struct ServerGone {
    std::string reason;
    /// What the user can do; may be empty.
    std::string next_step = {};
};
/// The server, or this node's system, rejects this node.
struct NodeRefused {
    std::string reason;
    /// What the user can do; may be empty.
    std::string next_step = {};
};
/// An operation that must not fail has failed.
struct InternalError {
    std::string reason;
};
/// This node left, and no result arrived.
struct NodeLeft {
    /// `drain`: the cause was `ddprunctl drain`; `unfit`: the health check (--health-check), or an
    /// error of a GPU.
    enum class By : std::uint8_t { signal, drain, unfit };

    int signal;
    std::string reason;
    By by = By::signal;
};

/// Why this node's part of the job is over. A result of the server takes precedence over the
/// others.
using Ending = std::variant<control::JobResult, ServerGone, NodeRefused, InternalError, NodeLeft>;

/// The exit code of `ddprun` on a node whose agent ends in order: decided here and nowhere else.
int exit_code_of(const Ending& ending, bool is_as_torchrun);

/// The whole report except this node's place in the last round. `ends`: how that round's workers
/// ended.
JobReport report_of(const Ending& ending, const AgentConfig& config, FailureReport::Ends ends);

}  // namespace ddprun::agent
