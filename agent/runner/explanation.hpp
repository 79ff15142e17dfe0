// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/worker_env.hpp"
#include "agent/runner/post_mortem.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/control/message.hpp"

#include <string>

namespace ddprun::agent {

/// What was known of a worker before its files were read.
struct KnownOfWorker {
    /// The error file, if it stays; empty: it does not.
    std::string kept_error_file;
    /// Where its standard error is written to; empty: to no file.
    std::string log_file;
    control::WorkProgress progress;
};

/// The answer to an `ExplainFailure`. Takes the finding's cause.
Agent::FailureExplained explanation(
    const Agent::ExplainFailure& order, PostMortem::Finding& finding, const KnownOfWorker& known);

/// Where there is no cause yet: what often ends a Python worker at once. `has_unseen_error`: what
/// it may have written was not read.
void explain_by_python(
    Agent::FailureExplained& explained, const WorkerSpec& worker, bool has_unseen_error);

}  // namespace ddprun::agent
