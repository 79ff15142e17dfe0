// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/failure_explainer.hpp"

#include "agent/plan/output_plan.hpp"
#include "agent/plan/worker_env.hpp"
#include "agent/report/cause_in_words.hpp"
#include "agent/runner/current_round.hpp"
#include "agent/runner/worker_processes.hpp"

#include <unistd.h>

#include <utility>

namespace ddprun::agent {

FailureExplainer::FailureExplainer(Sources sources, OnExplained on_explained)
    : sources_(sources),
      on_explained_(std::move(on_explained)) {}

void FailureExplainer::explain(const Agent::ExplainFailure& order, const WorkerGroup* group) {
    const auto& plan = sources_.round.plan();
    PostMortem::Death death;
    death.error_file = error_file_path(sources_.config.worker, plan, order.local_rank);
    // An error file beside the log files is kept, and named in the report.
    death.keeps_error_file = !plan.logs.is_none();
    if (group != nullptr) {
        const auto& worker = group->worker(order.local_rank);
        death.pid = worker.pid();
        if (worker.exit()) death.end = to_worker_end(*worker.exit());
    }
    // Python exits with 1 after an uncaught exception. If standard error is a terminal, `ddprun`
    // has not read the exception's text.
    const bool has_unseen_error = death.end.kind == control::WorkerEnd::Kind::exited &&
                                  death.end.value == 1 && ::isatty(STDERR_FILENO) == 1;
    Known known{
        death.keeps_error_file ? death.error_file : std::string{},
        error_log_of(order.local_rank),
        sources_.progress_of(order.local_rank),
        has_unseen_error};
    sources_.post_mortem.examine(
        std::move(death), [this, order, known = std::move(known)](PostMortem::Finding finding) {
            answer(order, known, std::move(finding));
        });
}

/// The file that gets the worker's standard error; empty: none.
std::string FailureExplainer::error_log_of(int local_rank) const {
    const auto& config = sources_.config;
    const auto& plan = sources_.round.plan();
    const int rank = plan.assignment.rank_base + local_rank;
    if (is_at_terminal(config.worker, Stream::err, rank)) return {};
    const auto route = route_of(config.output, Stream::err, local_rank, rank);
    return route.to_file ? plan.logs.file_of_worker(Stream::err, local_rank, rank) : "";
}

void FailureExplainer::answer(
    const Agent::ExplainFailure& order, const Known& known, PostMortem::Finding finding) {
    auto explained = explanation(order, known, finding);
    if (sources_.round.is(order.round)) {
        if (explained.details.empty())
            explained.details = sources_.workers.stderr_tail(order.local_rank);
        keep_original(order.local_rank, finding);
    }
    explain_by_python(explained, known.has_unseen_error);
    on_explained_(std::move(explained));
}

/// Combines all facts; moves the cause out of the finding.
Agent::FailureExplained FailureExplainer::explanation(
    const Agent::ExplainFailure& order, const Known& known, PostMortem::Finding& finding) {
    Agent::FailureExplained explained{order.round, order.local_rank, "", "", false};
    explained.cause = std::move(finding.cause);
    explained.unix_time = finding.unix_time;
    explained.log_file = known.log_file;
    explained.progress = known.progress;
    if (!finding.report) return explained;
    explained.message = finding.report->message;
    explained.details = finding.report->details;
    explained.is_secondary = finding.report->is_secondary;
    explained.error_file = known.kept_error_file;
    explained.from_error_file = explained.details.empty()
                                    ? control::WorkerFailure::FromErrorFile::message
                                    : control::WorkerFailure::FromErrorFile::message_and_details;
    return explained;
}

/// Has an effect only if no cause is known yet. If the error was not read, names the Python that
/// was used, because a wrong Python often ends a worker at once; otherwise names a missing module.
void FailureExplainer::explain_by_python(
    Agent::FailureExplained& explained, bool has_unseen_error) const {
    const auto& worker = sources_.config.worker;
    auto& why = explained.cause.sentence;
    if (!why.empty() || !is_run_by_python(worker)) return;
    const auto& origin = worker.python_origin;
    why = has_unseen_error && explained.details.empty()
              ? run_by(worker.program, origin)
              : missing_module(explained.details, worker.program, origin);
}

/// Keeps the error file of the worker that FailureReport will choose: the first failed worker,
/// unless its failure is secondary and a later one is not.
void FailureExplainer::keep_original(int local_rank, PostMortem::Finding& finding) {
    if (!finding.report) return;
    const auto& assignment = sources_.round.plan().assignment;
    const bool is_first = !original_ || original_->round != assignment.round;
    if (!is_first && finding.report->is_secondary) return;
    original_ =
        Original{assignment.rank_base + local_rank, assignment.round, std::move(finding.original)};
}

std::string FailureExplainer::original_of(const std::optional<control::Cause>& cause) const {
    const bool is_it = cause && cause->worker && original_ &&
                       cause->worker->rank == original_->rank && cause->round == original_->round;
    return is_it ? original_->text : std::string{};
}

}  // namespace ddprun::agent
