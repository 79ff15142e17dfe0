// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/worker_exit.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::agent {

/// What is known of the root cause of a round's end at a worker's exit.
enum class RootCause : std::uint8_t {
    unknown,
    /// A worker's end on this node is being explained, or waited with.
    in_question,
    /// Every failure so far, here or elsewhere, names another worker's death as its cause.
    not_reported,
    known,
};

/// A worker's exit, and everything else that its blame depends on.
struct ExitFacts {
    WorkerExit exit;
    /// The workers are being stopped, first with this signal.
    std::optional<int> stop_signal = std::nullopt;
    /// From then on a SIGKILL comes from this agent.
    bool has_killed = false;
    RootCause root_cause = RootCause::unknown;
};

enum class Blame : std::uint8_t {
    none,
    /// This agent ended it, or kept it from starting.
    expected_exit,
    /// It ended badly by itself after the failure that counts.
    secondary_failure,
    /// The root cause: the program cannot run, and there is nothing to explain.
    not_executable,
    /// A polite signal, perhaps from a scheduler that signals every process: its signal to this
    /// agent may still come.
    perhaps_signalled,
    /// The root cause, unless its explanation names another worker's death as its cause.
    own_failure,
};

Blame blame_of(const ExitFacts& facts);

}  // namespace ddprun::agent
