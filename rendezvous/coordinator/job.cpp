// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/job.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/coordinator/departures.hpp"
#include "rendezvous/coordinator/drain_keepers.hpp"
#include "rendezvous/coordinator/draining.hpp"
#include "rendezvous/coordinator/forming.hpp"
#include "rendezvous/coordinator/hang_watch.hpp"
#include "rendezvous/coordinator/preemption.hpp"
#include "rendezvous/coordinator/recovering.hpp"
#include "rendezvous/coordinator/running.hpp"
#include "rendezvous/coordinator/standby.hpp"
#include "rendezvous/coordinator/voter_roll.hpp"
#include "rendezvous/coordinator/worker_orders.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace job {
namespace {

/// A wake-up that is late by more than this means that the process did not run for a while.
constexpr Duration late_wake_up = limits::heartbeat_interval / 2;

void on_received(JobStep& step, Job::Received received) {
    auto& job = step.job;
    auto* member = job.members.find(received.nonce);
    if (member == nullptr || !member->speaks_through(received.connection)) {
        step.has_changed = false;
        ++job.history.stale_count;
        return;
    }
    member->has_answered = true;
    // A message that was sent while the node was silent may reach it only now. So a stop gets its
    // full time again.
    const bool was_heard = job.silence.is_heard(received.nonce, step.now);
    feed_silence(step, Silence::Heard{received.nonce});
    if (!was_heard && member->ready_by) member->ready_by = job.ready_by(*member, step.now);
    on_message(step, *member, std::move(received.message));
}

void on_connection_ended(JobStep& step, const Job::Dropped& dropped) {
    step.has_changed = false;
    if (drop_command(step.job, dropped.connection)) return;
    auto* member = step.job.members.find(dropped.nonce);
    step.has_changed = member != nullptr && member->speaks_through(dropped.connection);
    if (step.has_changed) on_dropped(step, *member);
}

void on_dissolved(JobStep& step, const Job::Dissolved& dissolved) {
    require(step.job.is_young(), "only a job that has agreed on nothing is dissolved");
    step.job.naming = Naming::named;
    reject_all(step, dissolved.reason);
}

void on_deadline(JobStep& step) {
    end_orders_if_due(step);
    if (!step.job.is<Recovering>()) feed_silence(step, Silence::DeadlinePassed{});
    refill_budget_if_due(step);
    end_holds_if_due(step);
    admit_late_nodes_if_due(step);
    end_save_if_due(step);
    judge_hang_if_due(step);
    put_out_the_stuck_if_due(step);
}

/// Performs what follows from an event: the end of a drain, the next round.
void settle(JobStep& step) {
    auto& job = step.job;
    if (job.is<Recovering>()) update_recovering(step);
    if (job.is<Draining>() && job.members.stopping_count() == 0) end_round(step);
    if (job.is<Forming>()) update_forming(step);
    if (job.is<Running>()) refuse_surplus(step);
    update_drain_keepers(step);
    update_voters(step);
}

Ledger::State ledger_state(JobData& job) {
    if (job.is<Over>()) return Ledger::State::over;
    if (job.is<Recovering>() || job.members.connected_count() == 0) return Ledger::State::down;
    if (job.is<Forming>()) return Ledger::State::forming;
    if (job.is<Draining>()) return Ledger::State::draining;
    if (job.members.starting_count() > 0) return Ledger::State::starting;
    return std::get<Running>(job.state).hang ? Ledger::State::hung : Ledger::State::running;
}

void feed_ledger(JobStep& step) {
    auto& job = step.job;
    job.history.ledger.enter(ledger_state(job), job.round ? job.round->number : -1, step.now);
    if (step.steps)
        job.history.ledger.on_report(step.steps->group_rank, step.steps->report, step.now);
}

/// The ledger is fed first. A round that was reported begins when the job has recovered, since
/// until then its members may report more of what earlier servers had counted.
void feed_timeline(JobStep& step) {
    auto& job = step.job;
    if (!job.is<Running>() && !job.is<Draining>()) return;
    if (job.drain() && job.drain()->next_round) return;
    const auto number = job.round->number;
    if (!job.history.timeline.is_in(number))
        job.history.timeline.begin_round(number, job.history.ledger.totals(step.now));
    job.history.timeline.reach(job.history.ledger.phase());
}

void note_desertion(JobStep& step) {
    auto& job = step.job;
    if (!job.is_deserted()) {
        job.deserted_until.reset();
        return;
    }
    // Nodes without a connection may have workers until their lease is over.
    const bool has_workers = job.is<Running>() || job.is<Draining>();
    const auto longest = has_workers ? limits::longest_lease : limits::deserted_job_memory;
    const auto memory = job.is_proven()
                            ? limits::deserted_job_memory
                            : std::clamp(job.lease(), limits::unproven_job_memory, longest);
    const auto until = step.now + memory;
    job.deserted_until = std::min(job.deserted_until.value_or(until), until);
}

/// Checks the invariants of a whole round; called when the job's state has changed.
void check_round(JobData& job) {
    job.members.check();
    require(job.silence.size() == job.members.size(), "every member may be silent, and no other");
    if (!job.is<Running>() || job.round->is_recovered) return;
    require(
        job.round->places.size() + job.members.standby_count() == job.members.size(),
        "a member has a place or none");
    job.round->check();
    const auto size = job.round->places.size();
    require(job.nodes().in_units(size) == size, "a round has whole units of nodes");
    for (const auto& [rank, place] : job.round->places.taken()) {
        const auto* member = job.members.find(place.nonce);
        require(
            member != nullptr && member->group_rank == static_cast<int>(rank),
            "a place has its member");
        require(member->state == Member::State::starting, "a member of a new round starts");
    }
}

}  // namespace
}  // namespace job

Job::Job(Identity identity, const control::Join& first, Instant now)
    : data_(std::move(identity), first, Forming{now, first.settings}, now) {}

Job::Job(Identity identity, const control::Resume& first, Instant now)
    : data_(std::move(identity), first.join, Recovering{}, now) {
    std::get<Recovering>(data_.state).ends_at = now + data_.lease();
    data_.history.said.state = "recovering";
}

void Job::handle(Event event, Instant now, std::vector<Effect>& out) {
    data_.members.begin_event();
    JobStep step{data_, now, out};
    const auto state_before = data_.state.index();
    const auto deadline = next_deadline();
    if (deadline && now > *deadline + job::late_wake_up) restart_clocks(step);
    dispatch(step, std::move(event));
    if (step.has_changed) {
        job::settle(step);
        job::note_desertion(step);
    }
    job::feed_ledger(step);
    job::feed_timeline(step);
    check();
    if (data_.state.index() != state_before) job::check_round(data_);
}

void Job::dispatch(JobStep& step, Event event) {
    std::visit(
        Overloaded{
            [&](Joined& joined) { on_joined(step, std::move(joined)); },
            [&](Resumed& resumed) { on_resumed(step, std::move(resumed)); },
            [&](Received& received) { job::on_received(step, std::move(received)); },
            [&](const Dropped& dropped) { job::on_connection_ended(step, dropped); },
            [&](const Interrupted& interrupted) { on_interrupted(step, interrupted); },
            [&](const Commanded& commanded) { on_commanded(step, commanded); },
            [&](EndRecorded) { on_recorded(step); },
            [&](VotersChanged& voters) { on_voters_changed(step, std::move(voters)); },
            [&](WitnessChanged& changed) { on_witness_changed(step, std::move(changed.witness)); },
            [&](const Dissolved& dissolved) { job::on_dissolved(step, dissolved); },
            [&](DeadlinePassed) {
                // The event may be early, late or meant for another job.
                const auto next = next_deadline();
                step.has_changed = next && step.now >= *next;
                if (step.has_changed) job::on_deadline(step);
            },
        },
        event);
}

std::optional<Instant> Job::next_deadline() const {
    // No node is lost while the job recovers.
    if (const auto* recovering = std::get_if<Recovering>(&data_.state))
        return earliest(recovering->ends_at, data_.deserted_until);
    const auto of_orders = next_order_deadline(data_);
    if (is_settled()) return earliest(std::get<Over>(data_.state).forget_at, of_orders);
    const auto own = std::visit(
        Overloaded{
            [](const Forming& forming) -> std::optional<Instant> {
                return coordinator::next_deadline(forming);
            },
            [](const Running& running) { return coordinator::next_deadline(running); },
            [](const Draining& drain) { return drain.look_at; },
            [](const auto&) { return std::optional<Instant>{}; },
        },
        data_.state);
    const auto of_nodes = earliest(data_.silence.next_deadline(), data_.holds.ends_at);
    return earliest(earliest(own, of_orders), earliest(of_nodes, data_.deserted_until));
}

bool Job::is_forgettable(Instant now) const {
    if (data_.deserted_until) return now >= *data_.deserted_until;
    return is_settled() && now >= std::get<Over>(data_.state).forget_at;
}

void Job::name(std::string incarnation) {
    require(is_nameless(), "a job has one name");
    data_.naming = Naming::renamed;
    data_.identity.incarnation = std::move(incarnation);
}

bool Job::is_spoken_for(const Nonce& nonce, ConnectionId connection) const {
    const auto* member = data_.members.find(nonce);
    return member != nullptr && member->speaks_through(connection);
}

const control::JobResult* Job::unrecorded_result() const {
    const auto* over = std::get_if<Over>(&data_.state);
    return over != nullptr && !over->is_recorded ? &over->result : nullptr;
}

std::string Job::ending() const {
    const auto* over = std::get_if<Over>(&data_.state);
    if (!over) return "is not over";
    return std::string{control::name_of(over->result.outcome)} + " (" + data_.history.said.reason +
           ", exit code " + std::to_string(over->result.exit_code) + ")";
}

JobStatus Job::status(Instant now, std::size_t first_node) const {
    return status_of(data_, now, first_node);
}

TimelineStatus Job::timeline(int first_round) const {
    TimelineStatus status{data_.history.timeline.older(), {}};
    for (const auto& round : data_.history.timeline.rounds())
        if (round.number >= first_round) status.rounds.push_back(round);
    return status;
}

/// Checks the invariants that are cheap enough to check after every event.
void Job::check() {
    const auto& budget = data_.restarts.budget;
    require(budget.used() <= budget.max(), "the budget is never overspent");
    require(!data_.round || data_.round->number < data_.next_round, "round numbers only grow");
    require(!data_.is<Running>() || data_.round, "a running job has a round");
    require(
        data_.drain() || data_.is<Over>() || data_.members.stopping_count() == 0,
        "only a drain stops members");
    require(!data_.is<Running>() || !data_.causes.cancel, "a job that is cancelled does not run");
    const auto* drain = std::get_if<Draining>(&data_.state);
    require(
        !drain || !data_.has_lease() || drain->look_at,
        "a drain of several nodes does not wait for ever");
}

bool Job::is_ledger_complete(Instant now) const {
    return data_.history.ledger.own_time(now) ==
           data_.history.phases.until_the_end(now, data_.state.index());
}

}  // namespace ddprun::coordinator
