// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/ending.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/coordinator/departures.hpp"
#include "rendezvous/coordinator/draining.hpp"
#include "rendezvous/coordinator/forming.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace ending {
namespace {

using namespace std::chrono_literals;

/// The least time for which the result is kept for nodes that come back.
constexpr Duration shortest_memory = 30s;

/// The secondary failures of the last round; every node's report has the same list.
std::vector<control::EndedWorker> other_failures(
    const JobData& job, const std::optional<control::Cause>& first) {
    std::vector<const NodeFailure*> others;
    if (const auto* drain = job.drain())
        for (const auto& failure : drain->failures)
            if (failure.cause.worker && failure.cause.kind == control::Cause::Kind::worker_failed)
                others.push_back(&failure);
    std::stable_sort(others.begin(), others.end(), [](const NodeFailure* a, const NodeFailure* b) {
        return a->at < b->at;
    });
    std::vector<control::EndedWorker> reported;
    for (const auto* failure : others) {
        if (reported.size() == limits::max_reported_failures) break;
        const auto& worker = *failure->cause.worker;
        if (first && first->worker && first->worker->rank == worker.rank) continue;
        reported.push_back(
            {worker.rank, worker.local_rank, worker.pid, worker.end, failure->cause.host});
    }
    return reported;
}

Instant forget_at(const JobStep& step) {
    return step.now + std::clamp(step.job.lease(), shortest_memory, limits::deserted_job_memory);
}

/// Requires: the job is still in the state in which the round ended. `cause` is null when all
/// workers succeeded.
void end_in_timeline(JobStep& step, const control::Cause* cause) {
    auto& job = step.job;
    if (!job.has_current_round() || (job.drain() && job.drain()->next_round)) return;
    const auto totals = job.history.ledger.totals(step.now);
    const auto number = job.round->number;
    if (!job.history.timeline.is_in(number)) job.history.timeline.begin_round(number, totals);
    if (cause)
        job.history.timeline.end_round({cause->kind, cause->reason}, totals);
    else
        job.history.timeline.end_round({}, totals);
}

void end(
    JobStep& step, control::Outcome outcome, std::optional<control::Cause> cause, int exit_code) {
    auto& job = step.job;
    require(!job.is<Over>(), "a job ends once");
    end_in_timeline(step, cause ? &*cause : nullptr);
    Over over;
    for (const auto* member : job.members.by_arrival())
        over.members.emplace(member->nonce(), member->token);
    over.result = {outcome, std::move(cause), exit_code, {}};
    over.result.secondary_failures = other_failures(job, over.result.root_cause);
    over.is_recorded = job.identity.epoch == 0;
    over.forget_at = forget_at(step);
    over.result.goodput = job.history.ledger.totals(step.now);
    const auto result = over.result;
    const bool was_recovering = job.is<Recovering>();
    step.enter(std::move(over));
    if (was_recovering) restart_clocks(step);
    job.holds.ends_at.reset();
    feed_silence(step, Silence::Ended{});
    step.say(
        control::name_of(outcome),
        result.root_cause ? result.root_cause->reason : "every node succeeded");
    // A member without a connection gets the result when it resumes.
    for (const auto* member : job.members.by_arrival())
        send_result(step, *member);
}

void restart(JobStep& step, const control::Cause& cause) {
    auto& job = step.job;
    auto& budget = job.restarts.budget;
    budget.spend();
    auto what = "restart " + std::to_string(budget.used()) + " of " + std::to_string(budget.max());
    const auto& progress = job.restarts.progress;
    if (progress.count() > 0)
        what += ", " + std::to_string(progress.count()) + " of " +
                std::to_string(*progress.limit()) + " failed rounds without a new step";
    const auto pause = job.restarts.delay.next(job.drain()->ran_for);
    if (pause > Duration{}) what += " after a pause of " + seconds_text(pause);
    form(step, what + ": " + cause.reason, pause);
    if (pause == Duration{}) return;
    // Without this message, screens would show nothing during the pause. The cause was sent with
    // the stop.
    for (const auto* member : job.members.by_arrival())
        if (!member->is_leaving()) step.send(*member, control::Standby{what});
}

}  // namespace
}  // namespace ending

void on_interrupted(JobStep& step, const JobInterrupted& interrupted) {
    auto& job = step.job;
    if (job.causes.cancel || job.is<Over>()) return;
    control::Cause cause;
    cause.kind = interrupted.kind;
    cause.reason = interrupted.reason;
    cause.signal = interrupted.signal;
    cause.round = job.round ? job.round->number : -1;
    job.causes.cancel = cause;
    if (job.is<Forming>()) return end_round(step);
    if (job.is_round_going_on()) {
        stop_round(step, cause, interrupted.signal, interrupted.grace);
        return;
    }
    // Every member is being stopped already: the interruption changes only the verdict, and perhaps
    // the grace.
    if (!job.is<Draining>()) return;
    step.say("draining", cause.reason);
    hasten_stop(step, cause.reason, interrupted.grace);
}

void follow(JobStep& step, Verdict verdict) {
    auto& job = step.job;
    if (verdict.next == Verdict::Next::over)
        return ending::end(step, verdict.outcome, std::move(verdict.cause), verdict.exit_code);
    ending::end_in_timeline(step, &verdict.cause);
    ++job.restarts.by_cause[verdict.cause.kind];
    job.causes.last = verdict.cause;
    if (const auto* drain = job.drain())
        job.restarts.progress.end_round(drain->ran_for, verdict.cause);
    if (verdict.next == Verdict::Next::restart) return ending::restart(step, verdict.cause);
    if (verdict.cause.kind == control::Cause::Kind::node_lost) job.restarts.losses.add(step.now);
    form(step, verdict.cause.reason);
}

control::JobResult result_for(int version, control::JobResult result) {
    if (version < control::goodput_since) result.goodput.reset();
    return result;
}

void send_result(JobStep& step, const Member& member) {
    const auto& over = std::get<Over>(step.job.state);
    if (over.is_recorded) step.send(member, result_for(member.version(), over.result));
}

void on_recorded(JobStep& step) {
    auto* over = std::get_if<Over>(&step.job.state);
    if (!over || over->is_recorded) return;
    over->is_recorded = true;
    over->forget_at = ending::forget_at(step);
    for (auto* member : step.job.members.by_arrival()) {
        if (member->is_connected)
            send_result(step, *member);
        else
            remove_member(step, *member);  // its connection ended meanwhile
    }
}

void succeed(JobStep& step) {
    ending::end(step, control::Outcome::succeeded, std::nullopt, 0);
}

}  // namespace ddprun::coordinator
