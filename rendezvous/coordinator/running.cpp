// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/running.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/coordinator/departures.hpp"
#include "rendezvous/coordinator/draining.hpp"
#include "rendezvous/coordinator/kept_workers.hpp"
#include "rendezvous/coordinator/preemption.hpp"
#include "rendezvous/coordinator/standby.hpp"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace running {
namespace {

Running state_of(const JobData& job, Instant now) {
    Running state;
    const auto refill_after = job.terms.settings.restart.refill_after;
    if (job.restarts.budget.used() > 0 && refill_after > Duration{})
        state.refill_at = now + refill_after;
    return state;
}

/// Gives the chosen members their places; every other member has no place from now on.
void place_members(JobData& job) {
    for (auto* member : job.members.by_arrival())
        member->group_rank.reset();
    for (const auto& [rank, place] : job.round->places.taken()) {
        auto& member = *job.members.find(place.nonce);
        member.group_rank = static_cast<int>(rank);
        member.hold.reset();
        member.kept.clear();
        member.is_recoverable = false;
        member.become(Member::State::starting);
    }
}

/// The latest time since which every member of the round has been heard; none while one is silent
/// or lost.
std::optional<Instant> all_heard_at(const JobStep& step) {
    const auto& job = step.job;
    auto earliest = step.now;
    for (const auto& [rank, place] : job.round->places.taken()) {
        const bool is_member = std::as_const(job.members).find(place.nonce) != nullptr;
        const bool is_heard = is_member && job.silence.is_heard(place.nonce, step.now);
        if (is_member ? !is_heard : !place.is_gone) return std::nullopt;
        if (is_member && job.has_lease())
            earliest = std::min(earliest, job.silence.heard_at(place.nonce));
    }
    return earliest;
}

std::string surplus_reason(const JobData& job) {
    return "job '" + job.identity.run_id + "' is complete with " +
           counted(job.round->places.size(), "node") + " (" + job.round->hosts_text() +
           "); for one more start all with --nnodes=" +
           std::to_string(job.terms.nodes.max + job.terms.nodes.unit.value_or(1));
}

}  // namespace
}  // namespace running

void begin_round(
    JobStep& step,
    const std::vector<Member*>& chosen,
    std::string because,
    const std::string& why) {
    auto& job = step.job;
    auto [round, warning] = plan_round(chosen);
    round.number = job.next_round++;
    round.restart_count = job.restarts.budget.total();
    round.began_at = step.now;
    round.done_step = job.history.ledger.done_step();
    round.because = std::move(because);
    round.state = source_of(round, job.members);
    round.state_uses = uses_of(round.state, job.round ? &*job.round : nullptr);
    const auto kept = held_count(job);
    job.round = std::move(round);
    job.causes.left.reset();
    job.size.is_new = false;
    running::place_members(job);
    step.enter(running::state_of(job, step.now));
    feed_round_to_silence(step);

    auto reason = "round " + std::to_string(job.round->number) +
                  " complete: " + counted(job.round->places.size(), "node") + ", " +
                  counted(static_cast<std::size_t>(job.round->world_size), "worker") + " (" + why +
                  ")";
    if (job.round->state)
        reason += "; " + counted(kept, "worker") +
                  (kept == 1 ? " keeps its process" : " keep their processes") +
                  ", all begin with the state of rank " + std::to_string(job.round->state->rank) +
                  " after step " + std::to_string(job.round->state->step);
    if (!warning.empty()) reason += "; " + warning;
    step.say("running", std::move(reason));
    for (const auto& [rank, place] : job.round->places.taken()) {
        const auto& member = *job.members.find(place.nonce);
        step.out.push_back(Ranked{
            job.identity.run_id,
            job.round->number,
            *member.group_rank,
            member.name(),
            place.reason});
        step.send(member, job.round->assignment_for(member));
    }
    for (const auto* member : job.members.standbys())
        if (!member->is_leaving())
            step.send(*member, control::Standby{standby_reason(job, *member)});
    end_notices_of_drained(step);
    begin_save_if_noticed(step);
}

void resume_round(JobStep& step) {
    auto& job = step.job;
    step.enter(running::state_of(job, step.now));
}

void consider_late_node(JobStep& step, const Member& member) {
    auto& job = step.job;
    // A node that waits for admission must not prevent the ranks from saving.
    const bool restarts = !std::get<Running>(job.state).save && job.has_room() &&
                          job.terms.settings.late_nodes == control::LateNodes::restart &&
                          !job.has_successes() && !member.hold && !member.is_of_drained_host &&
                          (!job.nodes().unit || job.growth() > 0);
    if (restarts) {
        auto& state = std::get<Running>(job.state);
        if (!state.first_late_at) state.first_late_at = step.now;
        state.admit_at = std::min(
            step.now + limits::late_node_quiet, *state.first_late_at + limits::late_node_longest);
    }
    step.send(member, control::Standby{standby_reason(job, member)});
}

void admit_late_nodes_if_due(JobStep& step) {
    auto& job = step.job;
    auto* state = std::get_if<Running>(&job.state);
    if (!state || !state->admit_at || step.now < *state->admit_at) return;
    state->admit_at.reset();
    state->first_late_at.reset();
    if (state->save) return;
    std::vector<std::string> names;
    for (const auto* member : job.members.standbys())
        if (member->is_candidate() && !member->hold) names.push_back(member->name());
    names.resize(std::min(names.size(), job.growth()));
    if (names.empty() || job.has_successes()) return;
    control::Cause cause;
    cause.kind = control::Cause::Kind::late_node;
    cause.round = job.round->number;
    cause.reason = "restart to let in " + names.front();
    if (names.size() > 1) cause.reason += " and " + counted(names.size() - 1, "other node");
    stop_round(step, cause, SIGTERM);
}

void refuse_surplus(JobStep& step) {
    auto& job = step.job;
    auto& check_at = std::get<Running>(job.state).surplus_check_at;
    check_at.reset();
    if (job.members.standby_count() == 0 || job.keeps_spares()) return;
    auto surplus = job.members.standbys();
    std::erase_if(surplus, [](const Member* member) { return !member->is_candidate(); });
    if (surplus.empty()) return;
    const auto heard_at = running::all_heard_at(step);
    for (auto* member : surplus) {
        // The newcomer may replace a member whose loss has not been noticed yet.
        if (!heard_at || *heard_at < member->came_at) {
            check_at = step.now + limits::silent_check_interval;
            continue;
        }
        step.refuse(member->connection.connection, running::surplus_reason(job), std::nullopt);
        remove_member(step, *member);
    }
}

std::optional<Instant> next_deadline(const Running& state) {
    const auto of_nodes = earliest(state.admit_at, state.surplus_check_at);
    const auto of_ranks = earliest(state.save_ends_at, state.judge_at);
    return earliest(earliest(state.refill_at, of_ranks), of_nodes);
}

void refill_budget_if_due(JobStep& step) {
    auto& job = step.job;
    auto* state = std::get_if<Running>(&job.state);
    if (!state || !state->refill_at || step.now < *state->refill_at) return;
    state->refill_at.reset();
    auto& budget = job.restarts.budget;
    budget.refill();
    step.say(
        "running",
        "round " + std::to_string(job.round->number) + " has run for " +
            seconds_text(job.terms.settings.restart.refill_after) +
            ": the budget is full again (--max-restarts=" + std::to_string(budget.max()) + ")");
}

}  // namespace ddprun::coordinator
