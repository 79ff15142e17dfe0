// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/draining.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/coordinator/ending.hpp"
#include "rendezvous/coordinator/forming.hpp"
#include "rendezvous/coordinator/kept_workers.hpp"
#include "rendezvous/coordinator/store_waits.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace draining {
namespace {

Draining state_of(const JobStep& step, const control::Cause& cause, int signal) {
    const auto& job = step.job;
    auto sent_cause = cause;
    // Details are long, and are sent with the result.
    if (sent_cause.worker) sent_cause.worker->details.clear();
    Draining drain;
    drain.stop = control::Stop{
        job.round->number, cause.reason, std::move(sent_cause), signal, job.terms.settings.grace};
    drain.stop.keeps = may_keep_workers(job, cause);
    drain.ran_for = step.now - job.round->began_at;
    return drain;
}

}  // namespace
}  // namespace draining

Draining& stop_round(
    JobStep& step, const control::Cause& cause, int signal, std::optional<Duration> grace) {
    auto& job = step.job;
    require(job.is_round_going_on(), "only a round that goes on is stopped");
    auto drain = draining::state_of(step, cause, signal);
    if (grace) drain.stop.grace = std::min(*grace, drain.stop.grace);
    if (auto* recovering = std::get_if<Recovering>(&job.state)) {
        recovering->draining = std::move(drain);
    } else {
        step.enter(std::move(drain));
        step.say("draining", cause.reason);
    }
    for (const auto& [rank, place] : job.round->places.taken()) {
        auto* member = job.members.find(place.nonce);
        if (member != nullptr && member->is_active()) stop_member(step, *member);
    }
    return *job.drain();
}

void stop_member(JobStep& step, Member& member) {
    auto& job = step.job;
    auto& drain = *job.drain();
    member.become(Member::State::stopping);
    member.kept.clear();
    step.send(member, drain.stop);
    // Without a lease (a job of one node) the drain waits for the member without a limit.
    if (!job.has_lease()) return;
    member.ready_by = job.ready_by(member, step.now);
    drain.look_at = earliest(drain.look_at, member.ready_by);
}

void hasten_stop(JobStep& step, const std::string& reason, std::optional<Duration> grace) {
    auto& job = step.job;
    auto& stop = job.drain()->stop;
    const auto shorter = std::min(stop.grace, grace.value_or(stop.grace));
    if (shorter == stop.grace && !stop.keeps) return;
    stop.grace = shorter;
    stop.keeps = false;
    stop.reason = reason;
    for (auto* member : job.members.by_arrival())
        if (member->state == Member::State::stopping) step.send(*member, stop);
}

void stop_unassigned(JobStep& step, Member& member) {
    if (*member.group_rank > 0) return member.become(Member::State::ready);
    step.send(member, step.job.round->assignment_for(member));
    stop_member(step, member);
}

void put_out_the_stuck_if_due(JobStep& step) {
    const auto* drain = std::get_if<Draining>(&step.job.state);
    if (drain && drain->look_at && step.now >= *drain->look_at) put_out_the_stuck(step);
}

void put_out_the_stuck(JobStep& step) {
    auto& job = step.job;
    auto& look_at = job.drain()->look_at;
    look_at.reset();
    for (auto* member : job.members.by_arrival()) {
        if (member->state != Member::State::stopping) continue;
        if (!job.silence.is_heard(member->nonce(), step.now)) {
            look_at = earliest(look_at, step.now + limits::silent_check_interval);
        } else if (step.now >= member->ready_by.value()) {
            member->become(Member::State::out);
            step.note(
                "node " + member->name() + " is out of round " + std::to_string(job.round->number) +
                ": its workers are not gone " + seconds_text(limits::drain_margin) +
                " after their grace");
        } else {
            look_at = earliest(look_at, member->ready_by);
        }
    }
}

RoundEnd round_end(const JobData& job, Instant now) {
    const auto pointer = [](const std::optional<control::Cause>& cause) {
        return cause ? &*cause : nullptr;
    };
    RoundEnd end;
    end.cancel = pointer(job.causes.cancel);
    end.is_saved = job.causes.is_saved;
    end.left = pointer(job.causes.left);
    end.has_staying = job.members.has_staying();
    if (const auto* drain = job.drain()) {
        end.departure = pointer(drain->departure);
        end.failures = drain->failures;
        end.stop_cause = &drain->stop.root_cause;
        end.ran_for = drain->ran_for;
    }
    end.has_restarts_left = !job.restarts.budget.is_spent();
    end.final_codes = job.terms.settings.restart.final_codes;
    end.progress = &job.restarts.progress;
    end.max_losses = job.restarts.losses.max_losses();
    end.is_crash_loop = job.restarts.losses.would_be_crash_loop(now);
    return end;
}

Verdict verdict_so_far(const JobData& job, Instant now) {
    auto end = round_end(job, now);
    // Members that have not come back yet may be in the next round.
    if (job.is<Recovering>()) end.has_staying = true;
    return judge(end);
}

void end_round(JobStep& step) {
    if (auto* drain = step.job.drain(); drain && drain->next_round && !step.job.causes.cancel) {
        if (drain->departure) step.job.causes.last = drain->departure;
        return form(step, std::string{*drain->next_round});
    }
    explain_by_waits(step.job);
    follow(step, judge(round_end(step.job, step.now)));
}

}  // namespace ddprun::coordinator
