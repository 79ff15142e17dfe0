// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/reports.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/redacted.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/coordinator/departures.hpp"
#include "rendezvous/coordinator/draining.hpp"
#include "rendezvous/coordinator/ending.hpp"
#include "rendezvous/coordinator/kept_workers.hpp"
#include "rendezvous/coordinator/node_drain.hpp"
#include "rendezvous/coordinator/preemption.hpp"
#include "rendezvous/coordinator/resize.hpp"
#include "rendezvous/coordinator/running.hpp"
#include "rendezvous/coordinator/store_waits.hpp"
#include "rendezvous/coordinator/worker_orders.hpp"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace reports {
namespace {

bool is_of_current_round(const JobData& job, const Member& member, int round) {
    return job.has_current_round() && member.group_rank && round == job.round->number;
}

control::Cause cause_of(const Member& member, const control::Failed& failed) {
    const auto& failure = failed.failure;
    control::Cause cause;
    cause.host = member.host();
    cause.round = failed.round;
    // Any caller may read the reasons on pages, unlike a worker's text. When only the store was
    // unreachable, no worker failed, and the failure's other fields are unused.
    if (failed.kind == control::Cause::Kind::store_unreachable) {
        cause.kind = control::Cause::Kind::store_unreachable;
        cause.reason = "node " + member.name() + ": " + failure.message;
        return cause;
    }
    const bool was_executed = failure.end.kind != control::WorkerEnd::Kind::not_executed;
    cause.kind =
        was_executed ? control::Cause::Kind::worker_failed : control::Cause::Kind::not_executable;
    const auto how = failure.message.empty() ? control::describe(failure.end) : failure.message;
    cause.reason =
        "rank " + std::to_string(failure.rank) + " on " + member.host() + ": " + redacted(how);
    cause.worker = failure;
    return cause;
}

/// Keeps each node's first failure, and one more if the first was secondary and this one is not: a
/// crashing worker may take longer to end than one that failed because of it.
bool is_news(const JobData& job, const Member& member, const control::WorkerFailure& failure) {
    const auto* drain = job.drain();
    if (!drain) return true;
    const auto& failures = drain->failures;
    return std::all_of(failures.begin(), failures.end(), [&](const NodeFailure& known) {
        return known.group_rank != *member.group_rank ||
               (known.is_secondary() && !failure.is_secondary);
    });
}

void on_leave(JobStep& step, Member& member, const control::Leave& leave) {
    auto& job = step.job;
    const bool is_new = !member.is_leaving();
    forget_notice(step, member);
    if (is_new) member.leave_signal = leave.signal;
    if (leave.signal == SIGINT || leave.ends_job)
        return on_interrupted(
            step, {control::Cause::Kind::cancelled, leave.signal, leave.reason, leave.grace});
    if (!is_new) {
        ++job.history.stale_count;
        return;
    }
    auto cause = node_cause(
        job,
        control::Cause::Kind::node_left,
        member,
        "node " + member.name() + " leaves: " + leave.reason);
    cause.signal = leave.signal;
    if (!job.causes.left) job.causes.left = cause;
    // A drained host has left because of the command, so this does not count as an unreliable host.
    if (member.group_rank && !member.drain_reason)
        job.holds.hosts.note_gone(member.host(), job.round->number, step.now);
    depart(step, member, std::move(cause));
}

/// A node outside of the running round may be in the next one.
void on_standby_ready(JobStep& step, Member& member) {
    const bool was_ready = member.state == Member::State::ready;
    member.become(Member::State::ready);
    if (!was_ready && member.is_candidate()) consider_late_node(step, member);
}

}  // namespace
}  // namespace reports

void on_message(JobStep& step, Member& member, control::AgentMessage message) {
    using namespace reports;
    auto& job = step.job;
    std::visit(
        Overloaded{
            // The coordinator handles these messages itself, so they do not come here.
            [&](const control::Join&) { ++job.history.stale_count; },
            [&](const control::Resume&) { ++job.history.stale_count; },
            [&](const control::JobCommand&) { ++job.history.stale_count; },
            [&](const control::Claim&) { ++job.history.stale_count; },
            [&](const control::Ready& ready) { on_ready(step, member, ready); },
            [&](const control::Started& started) { on_started(step, member, started); },
            [&](const control::Succeeded& succeeded) {
                on_succeeded(step, member, succeeded.round);
            },
            [&](const control::Failed& failed) { on_failed(step, member, failed); },
            [&](const control::Heartbeat& heartbeat) { on_heartbeat(step, member, heartbeat); },
            [&](const control::NeighbourHeard& heard) {
                step.has_changed = false;
                feed_silence(step, Silence::Answered{member.nonce(), heard});
            },
            [&](const control::Leave& leave) { on_leave(step, member, leave); },
            [&](const control::Notice& notice) { on_notice(step, member, notice); },
            [&](const control::SaveReport& report) { on_save_report(step, member, report); },
            [&](const control::Drain& drain) { on_drain(step, member, drain); },
            [&](const control::Undrain& undrain) { on_undrain(step, member, undrain); },
            [&](const control::Resize& resize) { on_resize(step, member, resize); },
            [&](const control::WorkerAnswer& answer) { on_worker_answer(step, member, answer); },
        },
        message);
}

void on_ready(JobStep& step, Member& member, const control::Ready& ready) {
    auto& job = step.job;
    member.join.store_port = ready.store_port;
    member.join.nproc = ready.nproc;
    member.kept = ready.kept;
    const bool is_in_round = member.group_rank.has_value();
    if (job.is<Running>() && !is_in_round) {
        if (!member.kept.empty()) return stop_held_outside(step, member, ready.round);
        return reports::on_standby_ready(step, member);
    }
    if (!job.is_round_going_on() || !is_in_round) return member.become(Member::State::ready);
    const bool has_workers =
        member.state == Member::State::starting || member.state == Member::State::running;
    if (!has_workers || ready.round < job.round->number) {
        ++job.history.stale_count;
        return;
    }
    // The node fenced itself before the server noticed the loss of contact.
    member.become(Member::State::ready);
    depart(
        step,
        member,
        node_cause(
            job,
            control::Cause::Kind::node_lost,
            member,
            "node " + member.name() + " stopped its workers on its own"));
}

/// The report may cross the stop of the round: then the member is given the time to hold its
/// workers from now on.
void note_recoverable(JobStep& step, Member& member) {
    if (std::exchange(member.is_recoverable, true)) return;
    if (member.ready_by) member.ready_by = step.job.ready_by(member, step.now);
}

void on_started(JobStep& step, Member& member, const control::Started& started) {
    auto& job = step.job;
    const bool is_meant =
        job.is_round_going_on() && member.group_rank && started.round == job.round->number;
    if (is_meant) feed_silence(step, Silence::Reached{member.nonce(), started.reached});
    if (started.is_recoverable && reports::is_of_current_round(job, member, started.round))
        note_recoverable(step, member);
    if (is_meant && member.state == Member::State::starting)
        member.become(Member::State::running);
    else if (!is_meant || member.state != Member::State::running)
        ++job.history.stale_count;
}

void on_succeeded(JobStep& step, Member& member, int round) {
    auto& job = step.job;
    const bool is_meant = reports::is_of_current_round(job, member, round) && member.is_active() &&
                          !job.round->place_of(member).has_succeeded;
    if (!is_meant) {
        ++job.history.stale_count;
        return;
    }
    job.round->place_of(member).has_succeeded = true;
    ++job.round->succeeded_count;
    // While the job drains, the member's state stays as it is, and its `ready` is awaited.
    if (job.is_round_going_on()) member.become(Member::State::succeeded);
    const bool is_success = job.round->succeeded_count == job.round->places.size();
    const bool has_failures = job.drain() && !job.drain()->failures.empty();
    if (!is_success || job.causes.cancel || has_failures) return;
    const auto saved = job.round->saved ? job.round->saved : saved_while_recovering(job, step.now);
    if (!saved) return succeed(step);
    // The ranks ended because they had saved, not because their work was done.
    end_as_saved(step, *saved);
}

void on_failed(JobStep& step, Member& member, const control::Failed& failed) {
    auto& job = step.job;
    const bool can_fail = member.is_active() && member.state != Member::State::succeeded;
    const bool is_meant = reports::is_of_current_round(job, member, failed.round) && can_fail &&
                          reports::is_news(job, member, failed.failure);
    if (!is_meant) {
        ++job.history.stale_count;
        return;
    }
    const auto cause = reports::cause_of(member, failed);
    auto* drain = job.drain();
    if (!drain) drain = &stop_round(step, cause, SIGTERM);
    drain->failures.push_back({step.now - failed.age, cause, *member.group_rank});
}

control::Failed failed_of(const control::Resume& resume) {
    const int round = resume.assignment ? resume.assignment->round : -1;
    return {round, resume.age.value_or(Duration{}), *resume.failure, resume.kind};
}

}  // namespace ddprun::coordinator
