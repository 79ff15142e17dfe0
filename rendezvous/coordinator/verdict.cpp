// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/verdict.hpp"

#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

namespace ddprun::coordinator {
namespace verdict {
namespace {

int exit_code_of(const control::WorkerEnd& end) {
    switch (end.kind) {
        case control::WorkerEnd::Kind::exited:
            return end.value > 0 && end.value <= 255 ? end.value : exit_codes::failed;
        case control::WorkerEnd::Kind::killed:
            // The number comes from a peer, and may be no valid signal.
            return end.value > 0 && end.value < 128 ? exit_codes::killed_by(end.value)
                                                    : exit_codes::failed;
        case control::WorkerEnd::Kind::not_executed:
            return end.value == ENOENT ? exit_codes::not_found : exit_codes::not_executable;
    }
    contradiction("a worker's end of no kind", __FILE__, __LINE__);
}

int exit_code_of(const control::Cause& cause) {
    if (cause.worker && cause.worker->has_hung) return exit_codes::hung;
    return cause.worker ? exit_code_of(cause.worker->end) : exit_codes::failed;
}

int exit_code_of_signal(int signal) {
    return exit_codes::killed_by(signal > 0 ? signal : SIGTERM);
}

Verdict over(control::Outcome outcome, control::Cause cause, int exit_code) {
    return {Verdict::Next::over, std::move(cause), outcome, exit_code};
}

Verdict another_round(control::Cause cause) {
    return {Verdict::Next::another_round, std::move(cause), control::Outcome::failed, 0};
}

/// The earliest failure; secondary failures come after all others.
const NodeFailure* first_failure(std::span<const NodeFailure> failures) {
    const auto first = std::min_element(
        failures.begin(), failures.end(), [](const NodeFailure& a, const NodeFailure& b) {
            return std::tuple{a.is_secondary(), a.at} < std::tuple{b.is_secondary(), b.at};
        });
    return first == failures.end() ? nullptr : &*first;
}

const NodeFailure* first_not_executable(std::span<const NodeFailure> failures) {
    const auto first =
        std::find_if(failures.begin(), failures.end(), [](const NodeFailure& failure) {
            return failure.cause.kind == control::Cause::Kind::not_executable;
        });
    return first == failures.end() ? nullptr : &*first;
}

Verdict judge_departure(const control::Cause& departure, const RoundEnd& end) {
    const bool is_lost = departure.kind == control::Cause::Kind::node_lost;
    if (!is_lost || !end.is_crash_loop) return another_round(departure);
    auto cause = departure;
    cause.kind = control::Cause::Kind::crash_loop;
    cause.reason = "nodes were lost in more than " + std::to_string(end.max_losses) +
                   " rounds within an hour; last: " + departure.reason;
    return over(control::Outcome::failed, std::move(cause), exit_codes::crash_loop);
}

Verdict judge_failure(control::Cause cause, const RoundEnd& end) {
    const int exit_code = exit_code_of(cause);
    const bool is_final = cause.kind == control::Cause::Kind::worker_failed &&
                          std::find(end.final_codes.begin(), end.final_codes.end(), exit_code) !=
                              end.final_codes.end();
    if (!end.has_restarts_left) return over(control::Outcome::failed, std::move(cause), exit_code);
    if (is_final) {
        cause.reason +=
            "; no restart after exit code " + std::to_string(exit_code) + " (--no-restart-on)";
        return over(control::Outcome::failed, std::move(cause), exit_code);
    }
    if (end.progress && end.progress->is_last(end.ran_for, cause)) {
        cause.reason += "; no restart after " + std::to_string(*end.progress->limit()) +
                        " failed rounds without a new step (--stop-without-progress)";
        return over(control::Outcome::failed, std::move(cause), exit_codes::no_progress);
    }
    return {Verdict::Next::restart, std::move(cause), control::Outcome::failed, 0};
}

}  // namespace
}  // namespace verdict

Verdict judge(const RoundEnd& end) {
    using namespace verdict;
    if (end.cancel)
        return over(
            control::Outcome::cancelled,
            *end.cancel,
            end.is_saved ? exit_codes::saved : exit_code_of_signal(end.cancel->signal));
    if (const auto* failure = first_not_executable(end.failures))
        return over(control::Outcome::failed, failure->cause, exit_code_of(failure->cause));
    if (end.left && !end.has_staying) {
        auto cause = *end.left;
        cause.kind = control::Cause::Kind::cancelled;
        cause.reason = "every node left; first: " + end.left->reason;
        const int exit_code = exit_code_of_signal(cause.signal);
        return over(control::Outcome::cancelled, std::move(cause), exit_code);
    }
    if (end.departure) return judge_departure(*end.departure, end);
    if (const auto* failure = first_failure(end.failures))
        return judge_failure(failure->cause, end);
    require(end.stop_cause != nullptr, "a round ends for a reason");
    return another_round(*end.stop_cause);
}

Verdict judge(const Shortage& shortage) {
    using namespace verdict;
    const auto waited = seconds_text(shortage.waited);
    const auto& hosts = shortage.hosts;
    control::Cause cause;
    if (!shortage.had_round) {
        cause.kind = control::Cause::Kind::no_node_joined;
        cause.reason =
            shortage.ready + " joined within " + waited + (hosts.empty() ? "" : " (" + hosts + ")");
        return over(control::Outcome::failed, std::move(cause), exit_codes::too_few_nodes);
    }
    if (shortage.last_cause) cause = *shortage.last_cause;
    cause.worker.reset();
    // No wait had begun, so the signal that ended one node counts as the end of the job: that node
    // may be the first of many to receive it.
    const bool is_signalled = cause.kind == control::Cause::Kind::node_left && cause.signal != 0;
    if (is_signalled && shortage.waited == Duration{}) {
        cause.kind = control::Cause::Kind::cancelled;
        const int exit_code = exit_code_of_signal(cause.signal);
        return over(control::Outcome::cancelled, std::move(cause), exit_code);
    }
    cause.kind = control::Cause::Kind::node_lost;
    cause.reason = (shortage.last_cause ? shortage.last_cause->reason + "; " : std::string{}) +
                   (shortage.waited > Duration{} ? "no replacement came within " + waited
                                                 : "no replacement is waited for") +
                   " (" + shortage.ready + (hosts.empty() ? "" : ": " + hosts) + ")";
    return over(control::Outcome::failed, std::move(cause), exit_codes::node_lost);
}

}  // namespace ddprun::coordinator
