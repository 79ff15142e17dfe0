// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/runner/post_mortem.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/control/message.hpp"

#include <functional>
#include <optional>
#include <string>

namespace ddprun::agent {

class CurrentRound;     // current_round.hpp
class WorkerProcesses;  // worker_processes.hpp

/// Answers an `ExplainFailure`: puts together what the files of a dead worker, its output and its
/// page say, and keeps the error file that may become the parent's. Lives on the agent's thread;
/// the files are read on that of the post mortem.
class FailureExplainer {
public:
    /// All must outlive this object.
    struct Sources {
        const AgentConfig& config;
        const CurrentRound& round;
        const WorkerProcesses& workers;
        PostMortem& post_mortem;
        /// What the worker's page shows.
        std::function<control::WorkProgress(int local_rank)> progress_of;
    };
    /// Never called from inside a function of this class.
    using OnExplained = std::function<void(Agent::FailureExplained)>;

    FailureExplainer(Sources sources, OnExplained on_explained);
    FailureExplainer(const FailureExplainer&) = delete;
    FailureExplainer& operator=(const FailureExplainer&) = delete;

    /// `group`: the machine's; none: it has no workers. Requires: a round has begun.
    void explain(const Agent::ExplainFailure& order, const WorkerGroup* group);

    /// The error file of the worker that the cause names, byte for byte; empty: there is none,
    /// or the worker is another node's.
    std::string original_of(const std::optional<control::Cause>& cause) const;

private:
    /// What was known of a worker before its files were read.
    struct Known {
        /// The error file, if it stays; empty: it does not.
        std::string kept_error_file;
        /// Where its standard error is written to; empty: to no file.
        std::string log_file;
        control::WorkProgress progress;
        /// What it may have written was not read.
        bool has_unseen_error = false;
    };
    /// The error file that may become the parent's.
    struct Original {
        int rank;
        int round;
        std::string text;
    };

    std::string error_log_of(int local_rank) const;
    void answer(
        const Agent::ExplainFailure& order, const Known& known, PostMortem::Finding finding);
    static Agent::FailureExplained explanation(
        const Agent::ExplainFailure& order, const Known& known, PostMortem::Finding& finding);
    void explain_by_python(Agent::FailureExplained& explained, bool has_unseen_error) const;
    void keep_original(int local_rank, PostMortem::Finding& finding);

    Sources sources_;
    OnExplained on_explained_;
    std::optional<Original> original_;
};

}  // namespace ddprun::agent
