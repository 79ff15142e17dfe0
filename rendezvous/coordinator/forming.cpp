// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/forming.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/coordinator/draining.hpp"
#include "rendezvous/coordinator/ending.hpp"
#include "rendezvous/coordinator/recovering.hpp"
#include "rendezvous/coordinator/running.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace forming {
namespace {

/// With `never` a late node fills a hole, but the round never grows.
std::size_t most_nodes(const JobData& job) {
    const bool fills_holes_only =
        job.terms.settings.late_nodes == control::LateNodes::never && job.round;
    if (!fills_holes_only) return job.max_nodes();
    return std::max(job.round->places.size(), job.min_nodes());
}

bool is_previous_round_settled(const JobData& job) {
    if (!job.round) return false;
    const auto& places = job.round->places;
    return std::all_of(places.begin(), places.end(), [&](const Place& place) {
        const auto* member = job.members.find(place.nonce);
        if (member == nullptr || member->state == Member::State::out) return true;
        return member->state == Member::State::ready && member->is_connected;
    });
}

Shortage shortage(JobData& job) {
    const auto& nodes = job.terms.nodes;
    const auto ready = std::to_string(job.members.candidate_count(job.min_nodes())) + " of " +
                       (nodes.min == nodes.max ? "" : "at least ") + std::to_string(nodes.min) +
                       " nodes";
    const auto* last = job.causes.last ? &*job.causes.last : nullptr;
    return {last, job.round.has_value(), ready, job.terms.settings.join_timeout};
}

FormingDecision decide(JobStep& step, Forming& forming) {
    auto& job = step.job;
    const auto& nodes = job.terms.nodes;
    const auto ready = static_cast<int>(job.members.candidate_count(job.min_nodes()));
    if (ready < nodes.min)
        forming.last_call_ends.reset();
    else if (!forming.last_call_ends)
        forming.last_call_ends = step.now + job.terms.settings.last_call_timeout;
    return decide_round(
        {ready,
         nodes.min,
         static_cast<int>(most_nodes(job)),
         ready >= nodes.min && is_previous_round_settled(job),
         forming.last_call_ends,
         step.now});
}

}  // namespace
}  // namespace forming

void form(JobStep& step, std::string why, Duration pause) {
    Forming forming;
    forming.why = std::move(why);
    forming.join_ends = step.now + pause + step.job.terms.settings.join_timeout;
    if (pause > Duration{}) forming.pause_ends = step.now + pause;
    step.enter(std::move(forming));
}

void update_forming(JobStep& step) {
    auto& job = step.job;
    if (job.is_empty()) return;
    const bool every_node_left =
        job.causes.left && job.members.size() > 0 && !job.members.has_staying();
    if (every_node_left) return end_round(step);
    if (job.naming == Naming::outdated) start_new_incarnation(step);

    auto& forming = std::get<Forming>(job.state);
    if (forming.pause_ends && step.now < *forming.pause_ends)
        return step.say("forming", forming.why);
    forming.pause_ends.reset();
    const auto decision = forming::decide(step, forming);
    if (decision.closes) {
        // Why there is a new round is worth a line even when no node has to be waited for.
        if (!forming.why.empty()) step.say("forming", forming.why);
        const auto chosen = choose_members(job.members, job.min_nodes(), forming::most_nodes(job));
        return begin_round(step, chosen, std::exchange(forming.why, {}), decision.reason);
    }
    if (!forming.last_call_ends && step.now >= forming.join_ends)
        return follow(step, judge(forming::shortage(job)));
    step.say(
        "forming", forming.why.empty() ? decision.reason : forming.why + "; " + decision.reason);
}

}  // namespace ddprun::coordinator
