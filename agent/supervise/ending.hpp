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

/// The rendezvous server is gone, or was never reached.
struct ServerGone {
    std::string reason;
    /// What the user can do; may be empty.
    std::string next_step = {};
};
/// The server, or the system for it, does not take this node.
struct NodeRefused {
    std::string reason;
    /// What the user can do; may be empty.
    std::string next_step = {};
};
/// Something that must work did not.
struct InternalError {
    std::string reason;
};
/// This node left, and no result came.
struct NodeLeft {
    /// `drain`: by `ddprunctl drain`; `unfit`: by --health-check, or by an
    /// error of a GPU.
    enum class By : std::uint8_t { signal, drain, unfit };

    int signal;
    std::string reason;
    By by = By::signal;
};

/// Why this node's part of the job is over. A result of the server precedes anything else.
using Ending = std::variant<control::JobResult, ServerGone, NodeRefused, InternalError, NodeLeft>;

/// The exit code of `ddprun` on a node whose agent ends in order: decided here and nowhere else.
int exit_code_of(const Ending& ending, bool is_as_torchrun);

/// Everything but this node's place in the last round; `ends` are those of that round's workers.
JobReport report_of(const Ending& ending, const AgentConfig& config, FailureReport::Ends ends);

}  // namespace ddprun::agent
