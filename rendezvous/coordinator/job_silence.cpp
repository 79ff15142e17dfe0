// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/coordinator/job.hpp"

#include <algorithm>
#include <utility>

/// The part of `Job` that judges those of whom nothing is heard: connections that ended, leases,
/// what neighbours say.
namespace ddprun::coordinator {
namespace job_silence {
namespace {

/// Named in one line of the log.
constexpr std::size_t most_named = 3;

std::string whole_seconds(Duration length) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(length).count()) + " s";
}

}  // namespace
}  // namespace job_silence

void Job::look_at_the_silent(Instant now, std::vector<Effect>& out) {
    std::vector<std::pair<Nonce, std::string>> lost;
    std::vector<const Member*> suspects;
    look_at_.reset();
    for (auto* member : members_.by_arrival()) {
        if (auto how = how_it_is_lost(*member, now)) {
            lost.emplace_back(member->nonce(), std::move(*how));
            continue;
        }
        if (is_silent(*member, now) && !member->suspicion) {
            member->suspicion.emplace(now);
            ++suspect_count_;
            suspects.push_back(member);
        }
        ask_about(*member, now, out);
        if (const auto next = next_look_at(*member)) look_at(*next);
        if (const auto disowned_at = lost_when_disowned_at(*member, now)) look_at(*disowned_at);
    }
    note_suspects(suspects, now, out);
    for (const auto& [nonce, how] : lost)
        lose(*members_.find(nonce), how, now, out);
}

/// Why this member counts as lost from now on, if it does.
std::optional<std::string> Job::how_it_is_lost(const Member& member, Instant now) const {
    using job_silence::whole_seconds;
    if (member.lost_at && now >= *member.lost_at) return "its connection ended";
    if (!has_lease()) return std::nullopt;
    const auto unheard = "nothing was heard of it for " + whole_seconds(now - member.heard_at);
    if (now >= member.heard_at + lease()) return unheard;
    const auto disowned_at = lost_when_disowned_at(member, now);
    if (disowned_at && now >= *disowned_at)
        return unheard + ", and " + member.suspicion->reason(witnesses_of(member, now), now);
    return std::nullopt;
}

std::optional<Instant> Job::lost_when_disowned_at(const Member& member, Instant now) const {
    if (!member.suspicion || !has_witnesses(member)) return std::nullopt;
    return member.suspicion->lost_at(member.heard_at, witnesses_of(member, now));
}

std::optional<Instant> Job::next_look_at(const Member& member) const {
    if (!has_lease()) return member.lost_at;
    auto next = earliest(member.lost_at, member.heard_at + lease());
    if (!member.suspicion) return earliest(next, member.heard_at + limits::suspect_after);
    // The answers bring their own moment.
    return has_witnesses(member) ? earliest(next, member.suspicion->next_ask()) : next;
}

void Job::ask_about(Member& member, Instant now, std::vector<Effect>& out) {
    if (!member.suspicion || !has_witnesses(member)) return;
    const auto question = member.suspicion->ask(now);
    if (!question) return;
    for (const auto& witness : witnesses_of(member, now))
        if (witness.state == Witness::State::heard)
            send(
                *members_.find(witness.nonce),
                control::Ask{member.nonce(), round_->number, question->disowns},
                out);
}

void Job::on_neighbour_heard(
    const Member& witness,
    const control::NeighbourHeard& heard,
    Instant now,
    std::vector<Effect>& out) {
    has_changed_ = false;
    auto* member = members_.find(heard.node);
    const bool is_meant = member != nullptr && member->suspicion && round_ &&
                          heard.round == round_->number && has_witnesses(*member);
    if (!is_meant) {
        ++stale_count_;
        return;
    }
    const auto witnesses = witnesses_of(*member, now);
    const bool was_asked = std::any_of(witnesses.begin(), witnesses.end(), [&](const Witness& one) {
        return one.nonce == witness.nonce();
    });
    if (!was_asked) {
        ++stale_count_;
        return;
    }
    auto& suspicion = *member->suspicion;
    const bool was_kept = suspicion.is_vouched_for(now);
    suspicion.note(
        witness.nonce(),
        heard.heard_ago ? std::optional{now - *heard.heard_ago} : std::nullopt,
        heard.is_disowned);
    if (!was_kept && suspicion.is_vouched_for(now))
        note("node " + member->name() + " is silent, but " + suspicion.reason(witnesses, now), out);
    if (const auto disowned_at = lost_when_disowned_at(*member, now))
        look_at(std::max(*disowned_at, now));
}

/// Whatever it was, it is heard again.
void Job::trust_again(Member& member, std::vector<Effect>& out) {
    if (!member.suspicion) return;
    member.suspicion.reset();
    if (--suspect_count_ == 0 && !is_over())
        note("node " + member.name() + " is heard again: nobody is silent any more", out);
}

void Job::note_suspects(
    const std::vector<const Member*>& suspects, Instant now, std::vector<Effect>& out) {
    if (suspects.empty() || is_over()) return;
    const auto& first = *suspects.front();
    if (suspects.size() == 1)
        return note("node " + first.name() + " has been " + silence_text(first, now), out);
    std::string names;
    for (std::size_t i = 0; i < std::min(suspects.size(), job_silence::most_named); ++i)
        names += (i == 0 ? "" : ", ") + suspects[i]->name();
    if (suspects.size() > job_silence::most_named)
        names += " and " + std::to_string(suspects.size() - job_silence::most_named) + " more";
    note(
        std::to_string(suspects.size()) + " nodes have been silent for " +
            job_silence::whole_seconds(now - first.heard_at) + ": " + names,
        out);
}

/// "silent for 4 s, node b heard from it 1 s ago: kept".
std::string Job::silence_text(const Member& member, Instant now) const {
    const auto text = "silent for " + job_silence::whole_seconds(now - member.heard_at);
    const auto lost_in = "lost in " + job_silence::whole_seconds(member.heard_at + lease() - now) +
                         " unless it is heard";
    if (!member.suspicion || !has_witnesses(member)) return text + ": " + lost_in;
    if (lost_when_disowned_at(member, now))
        return text + ", " + member.suspicion->reason(witnesses_of(member, now), now) +
               ": lost in a moment";
    return text + ", " + member.suspicion->reason(witnesses_of(member, now), now) + "; " + lost_in;
}

/// The server did not run for a while: what it did not hear meanwhile says nothing.
void Job::on_woken_late(Instant now) {
    look_at_.reset();
    suspect_count_ = 0;
    if (recovery_) recovery_->ends_at = now + lease();
    // Nodes that came meanwhile are heard first.
    const auto soon = now + limits::reconnect_grace;
    if (join_ends_) join_ends_ = std::max(*join_ends_, soon);
    if (last_call_ends_) last_call_ends_ = std::max(*last_call_ends_, soon);
    for (auto* member : members_.by_arrival()) {
        member->heard_at = now;
        member->suspicion.reset();
        if (member->lost_at) member->lost_at = now + limits::reconnect_grace;
        if (const auto next = next_look_at(*member)) look_at(*next);
        if (member->ready_by) member->ready_by = ready_by(now);
    }
}

// ---- questions ----------------------------------------------------------------------------------

bool Job::is_heard(const Member& member, Instant now) const {
    return member.is_connected && !is_silent(member, now);
}

bool Job::is_silent(const Member& member, Instant now) const {
    return has_lease() && now - member.heard_at >= limits::suspect_after;
}

/// Heartbeats tell; without a lease there are none.
bool Job::is_heard_since(const Member& member, Instant moment, Instant now) const {
    return is_heard(member, now) && (!has_lease() || member.heard_at >= moment);
}

std::optional<Instant> Job::everybody_heard_at(Instant now) const {
    auto earliest = now;
    for (const auto& place : round_->places) {
        const auto* member = members_.find(place.nonce);
        if (member == nullptr ? !place.is_gone : !is_heard(*member, now)) return std::nullopt;
        if (member != nullptr && has_lease()) earliest = std::min(earliest, member->heard_at);
    }
    return earliest;
}

/// Its neighbours decide. Otherwise its fence is the long one, and only its lease does.
bool Job::has_witnesses(const Member& member) const {
    return !is_over() && member.group_rank && member.reached >= limits::least_reached &&
           !place_of(member).neighbours.empty();
}

std::vector<Witness> Job::witnesses_of(const Member& member, Instant now) const {
    std::vector<Witness> witnesses;
    for (const auto neighbour : place_of(member).neighbours) {
        const auto& place = round_->places.at(neighbour);
        const auto* other = members_.find(place.nonce);
        auto state = Witness::State::gone;
        if (other != nullptr)
            state = is_heard(*other, now) ? Witness::State::heard : Witness::State::silent;
        witnesses.push_back({place.nonce, place.host, state, place.gone_at});
    }
    return witnesses;
}

}  // namespace ddprun::coordinator
