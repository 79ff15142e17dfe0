// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/explanation.hpp"

#include "agent/report/cause_in_words.hpp"

#include <utility>

namespace ddprun::agent {

Agent::FailureExplained explanation(
    const Agent::ExplainFailure& order, PostMortem::Finding& finding, const KnownOfWorker& known) {
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

void explain_by_python(
    Agent::FailureExplained& explained, const WorkerSpec& worker, bool has_unseen_error) {
    auto& why = explained.cause.sentence;
    if (!why.empty() || !is_run_by_python(worker)) return;
    const auto& origin = worker.python_origin;
    why = has_unseen_error && explained.details.empty()
              ? run_by(worker.program, origin)
              : missing_module(explained.details, worker.program, origin);
}

}  // namespace ddprun::agent
