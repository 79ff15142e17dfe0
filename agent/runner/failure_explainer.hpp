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

/// Answers an `ExplainFailure`: combines the facts in a dead worker's files, output and page. Keeps
/// the error file that may become the parent's error file. Lives on the agent's thread; files are
/// read on the post mortem's thread.
class FailureExplainer {
public:
    /// All must outlive this object.
    struct Sources {
        const AgentConfig& config;
        const CurrentRound& round;
        const WorkerProcesses& workers;
        PostMortem& post_mortem;
        /// Returns the progress in the worker's page.
        std::function<control::WorkProgress(int local_rank)> progress_of;
    };
    /// Never called from inside a function of this class.
    using OnExplained = std::function<void(Agent::FailureExplained)>;

    FailureExplainer(Sources sources, OnExplained on_explained);
    FailureExplainer(const FailureExplainer&) = delete;
    FailureExplainer& operator=(const FailureExplainer&) = delete;

    /// `group`: the agent's group; null: the agent has no workers. Requires: a round has begun.
    void explain(const Agent::ExplainFailure& order, const WorkerGroup* group);

    /// The unchanged error file of the worker that the cause names; empty: there is none, or the
    /// worker belongs to another node.
    std::string original_of(const std::optional<control::Cause>& cause) const;

private:
    /// Facts about a worker that are collected before its files are read.
    struct Known {
        /// The path of the error file; empty: the file is not kept.
        std::string kept_error_file;
        /// The file that gets the worker's standard error; empty: there is none.
        std::string log_file;
        control::WorkProgress progress;
        /// The worker may have written an error to the terminal, where `ddprun` does not read it.
        bool has_unseen_error = false;
    };
    /// The text that may become the parent's error file.
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
