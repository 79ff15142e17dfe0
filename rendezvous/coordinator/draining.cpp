// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/draining.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/coordinator/ending.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace draining {
namespace {

Draining state_of(const JobStep& step, const control::Cause& cause, int signal) {
    const auto& job = step.job;
    auto sent_cause = cause;
    // These are long and come with the result.
    if (sent_cause.worker) sent_cause.worker->details.clear();
    Draining draining;
    draining.stop = control::Stop{
        job.round->number, cause.reason, std::move(sent_cause), signal, job.terms.settings.grace};
    draining.ran_for = step.now - job.round->began_at;
    return draining;
}

}  // namespace
}  // namespace draining

Draining& drain(JobStep& step, const control::Cause& cause, int signal) {
    auto& job = step.job;
    require(job.is_round_going_on(), "only a round that goes on is stopped");
    auto draining = draining::state_of(step, cause, signal);
    if (auto* recovering = std::get_if<Recovering>(&job.state)) {
        recovering->drain = std::move(draining);
    } else {
        step.enter(std::move(draining));
        step.say("draining", cause.reason);
    }
    for (const auto& place : job.round->places) {
        auto* member = place.is_known ? job.members.find(place.nonce) : nullptr;
        if (member != nullptr && member->is_active()) stop_member(step, *member);
    }
    return *job.drain();
}

void stop_member(JobStep& step, Member& member) {
    auto& job = step.job;
    auto& draining = *job.drain();
    member.become(Member::State::stopping);
    step.send(member, draining.stop);
    // A job of one node waits for it however long it takes.
    if (!job.has_lease()) return;
    member.ready_by = job.ready_by(step.now);
    draining.look_at = earliest(draining.look_at, member.ready_by);
}

void stop_unassigned(JobStep& step, Member& member) {
    if (*member.group_rank > 0) return member.become(Member::State::ready);
    step.send(member, step.job.round->assignment_for(member));
    stop_member(step, member);
}

void put_out_the_stuck_if_due(JobStep& step) {
    const auto* draining = std::get_if<Draining>(&step.job.state);
    if (draining && draining->look_at && step.now >= *draining->look_at) put_out_the_stuck(step);
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
    end.left = pointer(job.causes.left);
    end.has_staying = job.members.has_staying();
    if (const auto* draining = job.drain()) {
        end.departure = pointer(draining->departure);
        end.failures = draining->failures;
        end.stop_cause = &draining->stop.root_cause;
    }
    end.has_restarts_left = !job.restarts.budget.is_spent();
    end.final_codes = job.terms.settings.restart.final_codes;
    end.max_losses = job.restarts.losses.max_losses();
    end.is_crash_loop = job.restarts.losses.would_be_crash_loop(now);
    return end;
}

Verdict verdict_so_far(const JobData& job, Instant now) {
    auto end = round_end(job, now);
    // Members that have not come back may stay.
    if (job.is<Recovering>()) end.has_staying = true;
    return judge(end);
}

void end_round(JobStep& step) {
    follow(step, judge(round_end(step.job, step.now)));
}

bool is_news(const JobData& job, const Member& member, const control::WorkerFailure& failure) {
    const auto* draining = job.drain();
    if (!draining) return true;
    const auto& failures = draining->failures;
    return std::all_of(failures.begin(), failures.end(), [&](const NodeFailure& known) {
        return known.group_rank != *member.group_rank ||
               (known.is_secondary() && !failure.is_secondary);
    });
}

}  // namespace ddprun::coordinator
