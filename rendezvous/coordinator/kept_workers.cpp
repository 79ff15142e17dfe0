// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/kept_workers.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/coordinator/departures.hpp"
#include "rendezvous/coordinator/draining.hpp"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

namespace ddprun::coordinator {
namespace kept_workers {
namespace {

bool has_complete_state(const control::KeptWorker& worker) {
    return worker.is_clean && worker.committed.has_value();
}

/// With a state that no round has got beyond, a checkpoint is better.
bool is_used_up(const std::optional<control::StateSource>& state, const Round& last) {
    return uses_of(state, &last) > limits::max_uses_of_state;
}

/// A round may begin with the state of one of these members.
bool has_usable_state(const JobData& job, auto is_counted) {
    std::vector<HeldWorker> held;
    for (const auto* member : job.members.by_arrival()) {
        if (member->kept.empty() || !member->stays() || !is_counted(member)) continue;
        // Only the step matters here, not the rank.
        for (const auto& worker : member->kept)
            held.push_back({0, worker});
    }
    const auto source = choose_source(held);
    return source && !is_used_up(source, *job.round);
}

/// Members whose held workers are of no use, now or when the round of the chosen ones begins.
/// Changes no member, so that none is counted again: nodes may be joining by the thousand.
std::vector<Nonce> unusable(const JobData& job, const std::vector<Member*>& chosen) {
    const auto all = job.members.by_arrival();
    const auto is_chosen = [&](const Member* member) {
        return std::find(chosen.begin(), chosen.end(), member) != chosen.end();
    };
    // A member without a connection may come back with its workers.
    const bool has_source = has_usable_state(
        job, [&](const Member* member) { return chosen.empty() || is_chosen(member); });
    std::vector<Nonce> found;
    for (const auto* member : all)
        if (!member->kept.empty() && (!has_source || !(chosen.empty() || is_chosen(member))))
            found.push_back(member->nonce());
    return found;
}

std::string why_unusable(const JobData& job) {
    const auto& round = *job.round;
    if (is_used_up(round.state, round))
        return counted(static_cast<std::size_t>(round.state_uses), "round") +
               " did no step with the state of step " + std::to_string(round.state->step) +
               ": all workers are started again";
    return "no worker that stays has the whole state: all are started again";
}

}  // namespace
}  // namespace kept_workers

std::optional<control::StateSource> choose_source(std::span<const HeldWorker> held) {
    const HeldWorker* best = nullptr;
    for (const auto& one : held) {
        if (!kept_workers::has_complete_state(one.worker)) continue;
        const auto is_better = [&] {
            if (*one.worker.committed != *best->worker.committed)
                return *one.worker.committed > *best->worker.committed;
            return one.rank < best->rank;
        };
        if (best == nullptr || is_better()) best = &one;
    }
    if (best == nullptr) return std::nullopt;
    return control::StateSource{best->rank, *best->worker.committed};
}

bool may_keep_workers(const JobData& job, const control::Cause& cause) {
    using Kind = control::Cause::Kind;
    const bool ends_job = job.causes.cancel || cause.kind == Kind::cancelled ||
                          cause.kind == Kind::superseded || cause.kind == Kind::not_executable;
    if (ends_job || job.terms.settings.recovery == control::Recovery::restart) return false;
    const auto& places = job.round->places.taken();
    return std::all_of(places.begin(), places.end(), [&](const auto& place) {
        const auto* member = job.members.find(place.second.nonce);
        return member == nullptr || member->version() >= control::recovery_since;
    });
}

bool stop_unusable_workers(JobStep& step, const std::vector<Member*>& chosen) {
    auto& job = step.job;
    if (!job.round) return false;
    const auto unusable = kept_workers::unusable(job, chosen);
    if (unusable.empty()) return false;
    auto& forming = std::get<Forming>(job.state);
    Draining drain;
    drain.next_round = std::move(forming.why);
    drain.stop.round = job.round->number;
    drain.stop.reason = kept_workers::why_unusable(job);
    drain.stop.how = SIGTERM;
    drain.stop.grace = job.terms.settings.grace;
    if (job.causes.last) drain.stop.root_cause = *job.causes.last;
    // Sent before, with the stop of the round.
    if (drain.stop.root_cause.worker) drain.stop.root_cause.worker->details.clear();
    const auto reason = drain.stop.reason;
    step.enter(std::move(drain));
    step.say("draining", reason);
    for (const auto& nonce : unusable)
        stop_member(step, *job.members.find(nonce));
    return true;
}

void stop_held_outside(JobStep& step, Member& member, int round) {
    member.become(Member::State::out);
    member.kept.clear();
    control::Stop stop;
    stop.round = round;
    stop.reason = "the job went on without this node: its workers are started again";
    stop.root_cause = node_cause(step.job, control::Cause::Kind::node_lost, member, stop.reason);
    stop.root_cause.round = round;
    stop.grace = step.job.terms.settings.grace;
    step.send(member, std::move(stop));
}

std::optional<control::StateSource> source_of(const Round& round, const Membership& members) {
    std::vector<HeldWorker> held;
    for (const auto& [rank, place] : round.places.taken())
        for (const auto& worker : members.find(place.nonce)->kept)
            held.push_back({place.rank_base + worker.local_rank, worker});
    return choose_source(held);
}

int uses_of(const std::optional<control::StateSource>& state, const Round* last) {
    if (!state) return 0;
    const bool is_same = last != nullptr && last->state && last->state->step == state->step;
    return is_same ? last->state_uses + 1 : 1;
}

std::size_t held_count(const JobData& job) {
    std::size_t count = 0;
    for (const auto* member : job.members.by_arrival())
        count += member->kept.size();
    return count;
}

}  // namespace ddprun::coordinator
