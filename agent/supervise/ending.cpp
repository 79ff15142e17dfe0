// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/ending.hpp"

#include "agent/supervise/next_step.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/machine.hpp"

#include <set>
#include <utility>
#include <vector>

namespace ddprun::agent {
namespace {

/// Lists this node's ends first, because that list is complete. Each rank is listed once, the root
/// cause's rank not at all.
std::vector<control::EndedWorker> secondary_failures(
    std::vector<control::EndedWorker> own, const control::JobResult* result) {
    std::set<int> named;
    if (result != nullptr) {
        own.insert(own.end(), result->secondary_failures.begin(), result->secondary_failures.end());
        if (result->root_cause && result->root_cause->worker)
            named.insert(result->root_cause->worker->rank);
    }
    std::erase_if(
        own, [&](const control::EndedWorker& one) { return !named.insert(one.rank).second; });
    return own;
}

}  // namespace

int exit_code_of(const Ending& ending, bool is_as_torchrun) {
    const int code = std::visit(
        Overloaded{
            [](const control::JobResult& result) { return result.exit_code; },
            [](const ServerGone&) { return exit_codes::server_gone; },
            [](const NodeRefused&) { return exit_codes::refused; },
            [](const InternalError&) { return exit_codes::internal_error; },
            [](const NodeLeft& left) {
                switch (left.by) {
                    case NodeLeft::By::signal: break;
                    case NodeLeft::By::drain: return exit_codes::drained;
                    case NodeLeft::By::unfit: return exit_codes::unfit;
                }
                return exit_codes::killed_by(left.signal);
            },
        },
        ending);
    return is_as_torchrun ? exit_codes::as_torchrun(code) : code;
}

JobReport report_of(const Ending& ending, const AgentConfig& config, FailureReport::Ends ends) {
    JobReport report;
    report.run_id = config.join.run_id;
    report.program = entrypoint_name(config.worker);
    report.max_restarts = config.join.max_restarts;
    report.exit_code = exit_code_of(ending, config.report.has_torchrun_exit_code);
    std::visit(
        Overloaded{
            [&](const control::JobResult& result) {
                report.outcome = result.outcome;
                report.root_cause = result.root_cause;
                report.goodput = result.goodput;
                const auto& cause = result.root_cause;
                if (cause && cause->kind == control::Cause::Kind::no_node_joined)
                    report.next_step = next_step_for_missing(config);
            },
            [&](const ServerGone& gone) {
                report.outcome = control::Outcome::failed;
                report.reason = gone.reason;
                report.next_step = gone.next_step;
            },
            [&](const NodeRefused& refused) {
                report.outcome = control::Outcome::failed;
                report.reason = refused.reason;
                report.next_step = refused.next_step;
            },
            [&](const NodeLeft& left) {
                report.outcome = control::Outcome::cancelled;
                report.reason = left.reason;
            },
            [&](const auto& failed) {
                report.outcome = control::Outcome::failed;
                report.reason = failed.reason;
            },
        },
        ending);
    report.secondary_failures =
        secondary_failures(std::move(ends.failed), std::get_if<control::JobResult>(&ending));
    report.stopped = std::move(ends.stopped);
    return report;
}

}  // namespace ddprun::agent
