// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/forming.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/coordinator/draining.hpp"
#include "rendezvous/coordinator/ending.hpp"
#include "rendezvous/coordinator/kept_workers.hpp"
#include "rendezvous/coordinator/recovering.hpp"
#include "rendezvous/coordinator/running.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::coordinator {
namespace forming {
namespace {

using namespace std::chrono_literals;

/// How long nodes wait before the first line about the wait is sent to them; the same for a node
/// that joins later.
constexpr Duration first_note_after = 5s;
/// The next line is sent when the nodes have waited this many times as long.
constexpr int note_factor = 3;
constexpr std::size_t most_named = 8;

/// With `never` a late node may fill a free place, but the round grows by a command only.
std::size_t most_nodes(const JobData& job) {
    const bool fills_holes_only =
        job.terms.settings.late_nodes == control::LateNodes::never && job.round && !job.size.is_new;
    if (!fills_holes_only) return job.max_nodes();
    return std::clamp(job.round->places.size(), job.min_nodes(), job.max_nodes());
}

bool is_previous_round_settled(const JobData& job) {
    if (!job.round) return false;
    const auto& places = job.round->places.taken();
    return std::all_of(places.begin(), places.end(), [&](const auto& place) {
        const auto* member = job.members.find(place.second.nonce);
        if (member == nullptr || member->state == Member::State::out) return true;
        return member->state == Member::State::ready && member->is_connected;
    });
}

/// A member that is not ready yet may still become ready; a lost one must be replaced.
void note_losses(JobStep& step, Forming& state) {
    const auto& job = step.job;
    const auto& limit = job.terms.settings.replacement_timeout;
    const bool lacks_replacement = job.round && job.members.staying_count() < job.min_nodes();
    if (!lacks_replacement || !limit)
        state.replacement_ends.reset();
    else if (!state.replacement_ends)
        state.replacement_ends = step.now + *limit;
}

/// The node ranks that no node has, as in "node ranks 1, 3"; empty unless places are fixed.
std::string missing_ranks(const JobData& job) {
    if (!job.terms.settings.is_static) return {};
    std::set<int> ranks;
    for (int rank = 0; rank < job.nodes().max; ++rank)
        ranks.insert(rank);
    for (const auto* member : job.members.by_arrival())
        if (member->is_candidate()) ranks.erase(member->join.node_rank.value_or(-1));
    const std::vector<int> missing(ranks.begin(), ranks.end());
    return (missing.size() == 1 ? "node rank " : "node ranks ") +
           short_list(missing, {most_named}, [](int rank) { return std::to_string(rank); });
}

/// "a (2), b".
std::string hosts_text(const JobData& job) {
    std::vector<std::pair<std::string, int>> hosts;
    std::map<std::string, std::size_t> places;
    for (const auto* member : job.members.by_arrival()) {
        if (!member->is_candidate()) continue;
        const auto [place, is_new] = places.try_emplace(member->host(), hosts.size());
        if (is_new) hosts.emplace_back(member->host(), 0);
        ++hosts[place->second].second;
    }
    return short_list(hosts, {most_named}, [](const auto& host) {
        return host.first + (host.second > 1 ? " (" + std::to_string(host.second) + ")" : "");
    });
}

Shortage shortage(JobData& job, const Forming& state) {
    const auto& nodes = job.nodes();
    const auto ready = std::to_string(job.members.candidate_count(job.min_nodes())) + " of " +
                       (nodes.min == nodes.max ? "" : "at least ") + std::to_string(nodes.min) +
                       " nodes";
    const auto* last = job.causes.last ? &*job.causes.last : nullptr;
    const auto& settings = job.terms.settings;
    const auto waited =
        state.replacement_ends ? *settings.replacement_timeout : settings.join_timeout;
    auto hosts = hosts_text(job);
    if (const auto ranks = missing_ranks(job); !ranks.empty()) hosts += "; missing: " + ranks;
    return {last, job.round.has_value(), ready, std::move(hosts), waited};
}

/// How many nodes do not fit into a multiple of the unit: ", 1 more than a multiple of 2". Empty
/// for none.
std::string left_over_text(const JobData& job, std::size_t ready) {
    const auto left = ready - job.nodes().in_units(ready);
    if (left == 0) return {};
    return ", " + std::to_string(left) + " more than a multiple of " +
           std::to_string(*job.nodes().unit);
}

struct FormingDecision {
    bool closes = false;
    /// The reason in words, for the log and the status page.
    std::string reason;
};

/// Decides whether a round begins now. Begins the last call, or ends it.
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
    return {
        false,
        "last call: " + have + "at most " + counted(most, "node") + " ready" +
            left_over_text(job, ready)};
}

/// "2 of 4 nodes are here (a, b), 2 missing; the job fails in 585 s".
control::Standby progress(const JobStep& step, const Forming& state) {
    auto& job = step.job;
    const auto min = job.min_nodes();
    const auto most = most_nodes(job);
    const auto ready = job.members.candidate_count(min);
    const bool is_last_call = state.last_call_ends.has_value();
    const auto in = [&](Instant end) {
        return seconds_text(std::chrono::ceil<std::chrono::seconds>(end - step.now));
    };
    auto text = std::to_string(ready) + " of " +
                (min == most    ? ""
                 : is_last_call ? "at most "
                                : "at least ") +
                counted(is_last_call ? most : min, "node") +
                (ready == 1 ? " is here (" : " are here (") + hosts_text(job) + ")";
    if (is_last_call)
        return {
            text + left_over_text(job, ready) + "; the round begins in " +
                in(*state.last_call_ends) + " at the latest",
            0};
    const auto ranks = missing_ranks(job);
    text += ", " + std::to_string(min - ready) + " missing" +
            (ranks.empty() ? "" : " (" + ranks + ")") + "; the job fails in " +
            in(waits_until(state));
    return {text, static_cast<int>(min - ready)};
}

/// Notifies waiting nodes, since screens would show nothing while nodes are missing. The pauses
/// grow, since each line goes to every node.
void note_progress(JobStep& step, Forming& state) {
    auto& notes = state.notes;
    const auto arrivals = step.job.members.arrivals();
    if (arrivals > notes.arrivals && !notes.newcomers_at)
        notes.newcomers_at = step.now + first_note_after;
    const bool is_for_all = step.now >= notes.all_at;
    if (!is_for_all && !(notes.newcomers_at && step.now >= *notes.newcomers_at)) return;
    const auto note = progress(step, state);
    for (const auto* member : step.job.members.by_arrival())
        if (member->is_candidate() && (is_for_all || member->arrival >= notes.arrivals))
            step.send(*member, note);
    notes.newcomers_at.reset();
    notes.arrivals = arrivals;
    if (is_for_all)
        notes.all_at = notes.waiting_since + note_factor * (step.now - notes.waiting_since);
}

}  // namespace
}  // namespace forming

Instant waits_until(const Forming& state) {
    return state.replacement_ends.value_or(state.join_ends);
}

Instant next_deadline(const Forming& state) {
    if (state.pause_ends) return *state.pause_ends;
    const auto& notes = state.notes;
    const auto note_at = std::min(notes.all_at, notes.newcomers_at.value_or(notes.all_at));
    return std::min(note_at, state.last_call_ends.value_or(waits_until(state)));
}

Forming::Forming(Instant waits_from, const control::Settings& settings)
    : join_ends(waits_from + settings.join_timeout),
      notes{waits_from, waits_from + forming::first_note_after, std::nullopt, 0} {}

void form(JobStep& step, std::string why, Duration pause) {
    Forming state{step.now + pause, step.job.terms.settings};
    state.why = std::move(why);
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
    if (stop_unusable_workers(step, {})) return;
    forming::note_losses(step, state);
    const auto decision = forming::decide_round(step, state);
    if (decision.closes) {
        // The reason for a new round is logged even when all its nodes are ready already.
        if (!state.why.empty()) step.say("forming", state.why);
        auto chosen = choose_members(job.members, job.min_nodes(), forming::most_nodes(job));
        chosen.resize(job.nodes().in_units(chosen.size()));
        if (stop_unusable_workers(step, chosen)) return;
        return begin_round(step, chosen, std::exchange(state.why, {}), decision.reason);
    }
    if (!state.last_call_ends && step.now >= waits_until(state))
        return follow(step, judge(forming::shortage(job, state)));
    step.say("forming", state.why.empty() ? decision.reason : state.why + "; " + decision.reason);
    forming::note_progress(step, state);
}

}  // namespace ddprun::coordinator
