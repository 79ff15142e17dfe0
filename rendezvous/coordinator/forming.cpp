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

struct FormingDecision {
    bool closes = false;
    /// In words, for the log and the status page.
    std::string reason;
};

/// Whether a round closes now. Begins the last call, or ends one that lasts no more.
FormingDecision decide_round(JobStep& step, Forming& state) {
    auto& job = step.job;
    const auto min = job.min_nodes();
    const auto most = most_nodes(job);
    const auto ready = job.members.candidate_count(min);
    if (ready < min)
        state.last_call_ends.reset();
    else if (!state.last_call_ends)
        state.last_call_ends = step.now + job.terms.settings.last_call_timeout;

    const auto have = std::to_string(ready) + " of ";
    if (ready >= most) return {true, "max nodes reached"};
    if (ready < min)
        return {
            false,
            "waiting for " + counted(min - ready, "node") + " (" + have +
                (min == most ? "" : "at least ") + std::to_string(min) + " ready)"};
    if (is_previous_round_settled(job))
        return {true, "every remaining node of the last round is ready"};
    if (step.now >= *state.last_call_ends) return {true, "the last call for more nodes is over"};
    return {false, "last call: " + have + "at most " + counted(most, "node") + " ready"};
}

}  // namespace
}  // namespace forming

void form(JobStep& step, std::string why, Duration pause) {
    Forming state;
    state.why = std::move(why);
    state.join_ends = step.now + pause + step.job.terms.settings.join_timeout;
    if (pause > Duration{}) state.pause_ends = step.now + pause;
    step.enter(std::move(state));
}

void update_forming(JobStep& step) {
    auto& job = step.job;
    if (job.is_empty()) return;
    const bool every_node_left =
        job.causes.left && job.members.size() > 0 && !job.members.has_staying();
    if (every_node_left) return end_round(step);
    if (job.naming == Naming::outdated) start_new_incarnation(step);

    auto& state = std::get<Forming>(job.state);
    if (state.pause_ends && step.now < *state.pause_ends) return step.say("forming", state.why);
    state.pause_ends.reset();
    const auto decision = forming::decide_round(step, state);
    if (decision.closes) {
        // Why there is a new round is worth a line even when no node has to be waited for.
        if (!state.why.empty()) step.say("forming", state.why);
        const auto chosen = choose_members(job.members, job.min_nodes(), forming::most_nodes(job));
        return begin_round(step, chosen, std::exchange(state.why, {}), decision.reason);
    }
    if (!state.last_call_ends && step.now >= state.join_ends)
        return follow(step, judge(forming::shortage(job)));
    step.say("forming", state.why.empty() ? decision.reason : state.why + "; " + decision.reason);
}

}  // namespace ddprun::coordinator
