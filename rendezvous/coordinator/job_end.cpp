// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/coordinator/job.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

/// The part of `Job` that judges: why a round ended, whether there is another, how the job ends.
namespace ddprun::coordinator {
namespace job_end {
namespace {

using namespace std::chrono_literals;

/// At least this long somebody may come back for the result.
constexpr Duration shortest_memory = 30s;

int exit_code_of(const control::WorkerEnd& end) {
    switch (end.kind) {
        case control::WorkerEnd::Kind::exited:
            return end.value > 0 && end.value <= 255 ? end.value : exit_codes::failed;
        case control::WorkerEnd::Kind::killed:
            // Said by somebody else: no such signal is no such code.
            return end.value > 0 && end.value < 128 ? exit_codes::killed_by(end.value)
                                                    : exit_codes::failed;
        case control::WorkerEnd::Kind::not_executed:
            return end.value == ENOENT ? exit_codes::not_found : exit_codes::not_executable;
    }
    contradiction("a worker's end of no kind", __FILE__, __LINE__);
}

int exit_code_of(const control::Cause& cause) {
    return cause.worker ? exit_code_of(cause.worker->end) : exit_codes::failed;
}

int exit_code_of_signal(int signal) {
    return exit_codes::killed_by(signal > 0 ? signal : SIGTERM);
}

}  // namespace
}  // namespace job_end

control::Cause Job::cause_of(const Member& member, const control::Failed& failed) const {
    const auto& failure = failed.failure;
    control::Cause cause;
    if (failed.kind == control::Cause::Kind::store_unreachable)
        cause.kind = control::Cause::Kind::store_unreachable;
    else if (failure.end.kind == control::WorkerEnd::Kind::not_executed)
        cause.kind = control::Cause::Kind::not_executable;
    else
        cause.kind = control::Cause::Kind::worker_failed;
    cause.host = member.host();
    cause.round = failed.round;
    // No worker did anything wrong, and the failure's other fields are about none.
    if (cause.kind == control::Cause::Kind::store_unreachable) {
        cause.reason = "node " + member.name() + ": " + failure.message;
        return cause;
    }
    const auto how = failure.message.empty() ? control::describe(failure.end) : failure.message;
    cause.reason = "rank " + std::to_string(failure.rank) + " on " + member.host() + ": " + how;
    cause.worker = failure;
    return cause;
}

/// The earliest; those that say they died of another's death come after all others.
const Job::Failure* Job::first_failure() const {
    const auto first = std::min_element(
        failures_.begin(), failures_.end(), [](const Failure& a, const Failure& b) {
            return std::tuple{a.is_consequence(), a.at} < std::tuple{b.is_consequence(), b.at};
        });
    return first == failures_.end() ? nullptr : &*first;
}

const Job::Failure* Job::first_not_executable() const {
    const auto first = std::find_if(failures_.begin(), failures_.end(), [](const Failure& failure) {
        return failure.cause.kind == control::Cause::Kind::not_executable;
    });
    return first == failures_.end() ? nullptr : &*first;
}

/// What it will have been if nothing else comes: in the order of `judge`.
/// Requires: the round is being stopped.
const control::Cause& Job::cause_so_far() const {
    if (cancel_) return *cancel_;
    if (const auto* failure = first_not_executable()) return failure->cause;
    if (departure_) return *departure_;
    if (const auto* failure = first_failure()) return failure->cause;
    return stop_->first_cause;
}

/// Nobody has workers any more: what was it, and what comes next?
void Job::judge(Instant now, std::vector<Effect>& out) {
    using namespace job_end;
    if (cancel_)
        return end(
            control::Outcome::cancelled, *cancel_, exit_code_of_signal(cancel_->signal), now, out);
    if (const auto* failure = first_not_executable())
        return end(
            control::Outcome::failed, failure->cause, exit_code_of(failure->cause), now, out);
    if (left_ && !members_.has_somebody_staying()) {
        auto cause = *left_;
        cause.kind = control::Cause::Kind::cancelled;
        cause.reason = "every node left; first: " + left_->reason;
        const int exit_code = exit_code_of_signal(cause.signal);
        return end(control::Outcome::cancelled, std::move(cause), exit_code, now, out);
    }
    if (departure_) return judge_departure(now, out);
    if (!failures_.empty()) return judge_failure(now, out);
    if (last_cause_) ++restarts_[last_cause_->kind];
    form(last_cause_ ? last_cause_->reason : std::string{}, now);
}

/// The loss explains what failed around it: a peer's error usually arrives before the end of the
/// connection that caused it.
void Job::judge_departure(Instant now, std::vector<Effect>& out) {
    last_cause_ = departure_;
    if (departure_->kind == control::Cause::Kind::node_lost) {
        losses_.add(now);
        if (losses_.is_crash_loop()) {
            auto cause = *departure_;
            cause.kind = control::Cause::Kind::crash_loop;
            cause.reason = "nodes were lost in more than " + std::to_string(losses_.max_losses()) +
                           " rounds within an hour; last: " + departure_->reason;
            return end(
                control::Outcome::failed, std::move(cause), exit_codes::crash_loop, now, out);
        }
    }
    ++restarts_[departure_->kind];
    form(departure_->reason, now);
}

void Job::judge_failure(Instant now, std::vector<Effect>& out) {
    auto cause = first_failure()->cause;
    last_cause_ = cause;
    const int exit_code = job_end::exit_code_of(cause);
    const auto& final_codes = terms_.settings.restart.final_codes;
    const bool is_final =
        cause.kind == control::Cause::Kind::worker_failed &&
        std::find(final_codes.begin(), final_codes.end(), exit_code) != final_codes.end();
    if (!budget_.is_spent() && !is_final) return restart(now, out);
    if (!budget_.is_spent())
        cause.reason +=
            "; no restart after exit code " + std::to_string(exit_code) + " (--no-restart-on)";
    end(control::Outcome::failed, std::move(cause), exit_code, now, out);
}

void Job::restart(Instant now, std::vector<Effect>& out) {
    budget_.spend();
    ++restarts_[last_cause_->kind];
    auto why = "restart " + std::to_string(budget_.used()) + " of " + std::to_string(budget_.max());
    const auto pause = delay_.next(round_->ran_for);
    if (pause > Duration{}) why += " after a pause of " + seconds_text(pause);
    form(why + ": " + last_cause_->reason, now);
    if (pause == Duration{}) return;
    pause_ends_ = now + pause;
    *join_ends_ += pause;
    // People look at their own node's screen, and there nothing else would happen.
    for (const auto* member : members_.by_arrival())
        if (!member->is_leaving()) send(*member, control::Standby{forming_why_}, out);
}

void Job::refill_budget(std::vector<Effect>& out) {
    refill_at_.reset();
    budget_.refill();
    say("running",
        "round " + std::to_string(round_->number) + " has run for " +
            seconds_text(terms_.settings.restart.refill_after) +
            ": the budget is full again (--max-restarts=" + std::to_string(budget_.max()) + ")",
        out);
}

void Job::give_up_forming(Instant now, std::vector<Effect>& out) {
    using namespace job_end;
    const auto ready =
        std::to_string(members_.candidate_count(static_cast<std::size_t>(terms_.nodes.min))) +
        " of " + (terms_.nodes.min == terms_.nodes.max ? "" : "at least ") +
        std::to_string(terms_.nodes.min) + " nodes";
    const auto waited = seconds_text(terms_.settings.join_timeout);
    control::Cause cause;
    if (!round_) {
        cause.kind = control::Cause::Kind::nobody_joined;
        cause.reason = ready + " joined within " + waited;
        return end(control::Outcome::failed, std::move(cause), exit_codes::nobody_joined, now, out);
    }
    if (last_cause_) cause = *last_cause_;
    cause.kind = control::Cause::Kind::node_lost;
    cause.worker.reset();
    cause.reason = (last_cause_ ? last_cause_->reason + "; " : std::string{}) +
                   "no replacement came within " + waited + " (" + ready + ")";
    end(control::Outcome::failed, std::move(cause), exit_codes::node_lost, now, out);
}

void Job::end(
    control::Outcome outcome,
    std::optional<control::Cause> cause,
    int exit_code,
    Instant now,
    std::vector<Effect>& out) {
    require(!result_, "a job ends once");
    result_ = control::JobResult{outcome, std::move(cause), exit_code};
    result_->consequences = consequences();
    enter(State::over, now);
    stop_.reset();
    recovery_.reset();
    pause_ends_.reset();
    refill_at_.reset();
    drain_look_at_.reset();
    join_ends_.reset();
    last_call_ends_.reset();
    first_late_at_.reset();
    admit_at_.reset();
    surplus_check_at_.reset();
    hold_ends_.reset();
    forget_at_ = now + std::max(lease(), job_end::shortest_memory);
    say(control::name_of(outcome),
        result_->first_cause ? result_->first_cause->reason : "every node succeeded",
        out);
    // Who is cut off at the moment gets it when it resumes.
    for (const auto* member : members_.by_arrival())
        send(*member, *result_, out);
}

/// What the last round's other failures were, for a report that says the same on every node.
std::vector<control::Consequence> Job::consequences() const {
    std::vector<const Failure*> others;
    for (const auto& failure : failures_)
        if (failure.cause.worker && failure.cause.kind == control::Cause::Kind::worker_failed)
            others.push_back(&failure);
    std::stable_sort(others.begin(), others.end(), [](const Failure* a, const Failure* b) {
        return a->at < b->at;
    });
    std::vector<control::Consequence> told;
    const auto& first = result_->first_cause;
    for (const auto* failure : others) {
        if (told.size() == limits::max_told_consequences) break;
        const auto& worker = *failure->cause.worker;
        if (first && first->worker && first->worker->rank == worker.rank) continue;
        told.push_back(
            {worker.rank, worker.local_rank, worker.pid, worker.end, failure->cause.host});
    }
    return told;
}

std::string Job::ending() const {
    if (!result_) return "is not over";
    return std::string{control::name_of(result_->outcome)} + " (" + reason_ + ", exit code " +
           std::to_string(result_->exit_code) + ")";
}

}  // namespace ddprun::coordinator
