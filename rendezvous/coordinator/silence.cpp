// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/silence.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace silence {
namespace {

/// How many neighbours one log line names.
constexpr std::size_t most_named = 3;

std::string whole_seconds(Duration length) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(length).count()) + " s";
}

}  // namespace
}  // namespace silence

void Silence::handle(Event event, Instant now, std::vector<Effect>& out) {
    std::visit(
        Overloaded{
            [&](Appeared& appeared) {
                Entry entry;
                entry.name = std::move(appeared.name);
                entry.arrival = next_arrival_++;
                entry.heard_at = now;
                arrivals_.emplace(entry.arrival, appeared.nonce);
                look_at(next_look_at(entry));
                const bool is_new = entries_.emplace(appeared.nonce, std::move(entry)).second;
                require(is_new, "a node appears once");
            },
            [&](const Heard& heard) { hear(entry_of(heard.nonce), now, out); },
            [&](const Attached& attached) {
                auto& entry = entry_of(attached.nonce);
                entry.is_connected = true;
                entry.lost_at.reset();
                hear(entry, now, out);
            },
            [&](const Dropped& dropped) {
                auto& entry = entry_of(dropped.nonce);
                entry.is_connected = false;
                if (dropped.is_behind_proxy && lease_) return;
                entry.lost_at = now + limits::reconnect_grace;
                look_at(entry.lost_at);
            },
            [&](const Removed& removed) { on_removed(removed.nonce, now); },
            [&](RoundBegan& round) { on_round(std::move(round)); },
            [&](const Reached& reached) { entry_of(reached.nonce).reached = reached.count; },
            [&](const Answered& answered) { on_answered(answered, now, out); },
            [&](WokenLate) { on_woken_late(now); },
            [&](Ended) { is_over_ = true; },
            [&](DeadlinePassed) {
                if (look_at_ && now >= *look_at_) on_deadline(now, out);
            },
        },
        event);
    require(suspect_count_ <= entries_.size(), "only nodes are suspected");
}

void Silence::on_removed(const Nonce& nonce, Instant now) {
    const auto& entry = entry_of(nonce);
    if (entry.seat) seats_.at(*entry.seat).gone_at = now;
    if (entry.suspicion) --suspect_count_;
    arrivals_.erase(entry.arrival);
    entries_.erase(nonce);
}

void Silence::on_round(RoundBegan round) {
    round_ = round.number;
    seats_.clear();
    for (auto& [nonce, entry] : entries_) {
        entry.seat.reset();
        if (!round.is_recovered) entry.reached = 0;
    }
    for (auto& seat : round.seats) {
        const auto entry = entries_.find(seat.nonce);
        if (entry != entries_.end()) entry->second.seat = seats_.size();
        seats_.push_back({std::move(seat), std::nullopt});
    }
}

void Silence::on_answered(const Answered& answered, Instant now, std::vector<Effect>& out) {
    const auto& heard = answered.heard;
    const auto found = entries_.find(heard.node);
    const bool is_meant = found != entries_.end() && found->second.suspicion &&
                          heard.round == round_ && has_witnesses(found->second);
    if (!is_meant) return out.push_back(Stale{});
    auto& entry = found->second;
    const auto witnesses = witnesses_of(entry, now);
    const bool was_asked = std::any_of(witnesses.begin(), witnesses.end(), [&](const Witness& one) {
        return one.nonce == answered.witness;
    });
    if (!was_asked) return out.push_back(Stale{});
    auto& suspicion = *entry.suspicion;
    const bool was_kept = suspicion.is_reached(now);
    suspicion.note(
        answered.witness,
        heard.heard_ago ? std::optional{now - *heard.heard_ago} : std::nullopt,
        heard.has_confirmed);
    if (!was_kept && suspicion.is_reached(now))
        out.push_back(
            Noted{"node " + entry.name + " is silent, but " + suspicion.reason(witnesses, now)});
    if (const auto lost_at = lost_when_confirmed_at(entry, now)) look_at(std::max(*lost_at, now));
}

void Silence::on_woken_late(Instant now) {
    look_at_.reset();
    suspect_count_ = 0;
    for (auto& [nonce, entry] : entries_) {
        entry.heard_at = now;
        entry.suspicion.reset();
        if (entry.lost_at) entry.lost_at = now + limits::reconnect_grace;
        look_at(next_look_at(entry));
    }
}

void Silence::on_deadline(Instant now, std::vector<Effect>& out) {
    std::vector<Lost> lost;
    std::vector<const Entry*> suspects;
    look_at_.reset();
    for (const auto& [arrival, nonce] : arrivals_) {
        auto& entry = entry_of(nonce);
        if (auto how = how_it_is_lost(entry, now)) {
            lost.push_back({nonce, std::move(*how)});
            continue;
        }
        if (is_silent(entry, now) && !entry.suspicion) {
            entry.suspicion.emplace(now);
            ++suspect_count_;
            suspects.push_back(&entry);
        }
        ask_about(nonce, entry, now, out);
        look_at(next_look_at(entry));
        look_at(lost_when_confirmed_at(entry, now));
    }
    note_suspects(suspects, now, out);
    for (auto& one : lost)
        out.push_back(std::move(one));
}

/// Called for every message of the node, whatever its type, and when it connects again.
void Silence::hear(Entry& entry, Instant now, std::vector<Effect>& out) {
    entry.heard_at = now;
    if (!entry.suspicion) return;
    entry.suspicion.reset();
    if (--suspect_count_ == 0 && !is_over_)
        out.push_back(Noted{"node " + entry.name + " is heard again: no node is silent any more"});
}

void Silence::ask_about(const Nonce& nonce, Entry& entry, Instant now, std::vector<Effect>& out) {
    if (!entry.suspicion || !has_witnesses(entry)) return;
    const auto question = entry.suspicion->ask(now);
    if (!question) return;
    for (const auto& witness : witnesses_of(entry, now))
        if (witness.state == Witness::State::heard)
            out.push_back(Ask{witness.nonce, {nonce, round_, question->confirms}});
}

void Silence::note_suspects(
    const std::vector<const Entry*>& suspects, Instant now, std::vector<Effect>& out) const {
    if (suspects.empty() || is_over_) return;
    const auto& first = *suspects.front();
    if (suspects.size() == 1)
        return out.push_back(Noted{"node " + first.name + " has been " + text(first, now)});
    const auto names =
        short_list(suspects, {silence::most_named}, [](const Entry* one) { return one->name; });
    out.push_back(Noted{
        std::to_string(suspects.size()) + " nodes have been silent for " +
        silence::whole_seconds(now - first.heard_at) + ": " + names});
}

/// Why this node counts as lost now; none when it does not.
std::optional<std::string> Silence::how_it_is_lost(const Entry& entry, Instant now) const {
    using silence::whole_seconds;
    if (entry.lost_at && now >= *entry.lost_at) return "its connection ended";
    if (!lease_) return std::nullopt;
    const auto unheard = "nothing was heard of it for " + whole_seconds(now - entry.heard_at);
    if (now >= entry.heard_at + *lease_) return unheard;
    const auto confirmed_at = lost_when_confirmed_at(entry, now);
    if (confirmed_at && now >= *confirmed_at)
        return unheard + ", and " + entry.suspicion->reason(witnesses_of(entry, now), now);
    return std::nullopt;
}

std::optional<Instant> Silence::lost_when_confirmed_at(const Entry& entry, Instant now) const {
    if (!entry.suspicion || !has_witnesses(entry)) return std::nullopt;
    return entry.suspicion->lost_at(entry.heard_at, witnesses_of(entry, now));
}

std::optional<Instant> Silence::next_look_at(const Entry& entry) const {
    if (!lease_) return entry.lost_at;
    const auto next = earliest(entry.lost_at, entry.heard_at + *lease_);
    if (!entry.suspicion) return earliest(next, entry.heard_at + limits::suspect_after);
    // A node with witnesses also has the deadline of its next question.
    return has_witnesses(entry) ? earliest(next, entry.suspicion->next_ask()) : next;
}

// ---- questions ----------------------------------------------------------------------------------

bool Silence::is_heard(const Nonce& nonce, Instant now) const {
    return is_heard(entry_of(nonce), now);
}

bool Silence::is_silent(const Nonce& nonce, Instant now) const {
    return is_silent(entry_of(nonce), now);
}

bool Silence::is_heard_since(const Nonce& nonce, Instant moment, Instant now) const {
    const auto& entry = entry_of(nonce);
    return is_heard(entry, now) && (!lease_ || entry.heard_at >= moment);
}

Instant Silence::heard_at(const Nonce& nonce) const {
    return entry_of(nonce).heard_at;
}

std::string Silence::text(const Nonce& nonce, Instant now) const {
    return text(entry_of(nonce), now);
}

std::string Silence::text(const Entry& entry, Instant now) const {
    const auto text = "silent for " + silence::whole_seconds(now - entry.heard_at);
    const auto lease = lease_.value_or(Duration{});
    const auto lost_in =
        "lost in " + silence::whole_seconds(entry.heard_at + lease - now) + " unless it is heard";
    if (!entry.suspicion || !has_witnesses(entry)) return text + ": " + lost_in;
    const auto reason = entry.suspicion->reason(witnesses_of(entry, now), now);
    if (lost_when_confirmed_at(entry, now)) return text + ", " + reason + ": lost in a moment";
    return text + ", " + reason + "; " + lost_in;
}

bool Silence::is_heard(const Entry& entry, Instant now) const {
    return entry.is_connected && !is_silent(entry, now);
}

bool Silence::is_silent(const Entry& entry, Instant now) const {
    return lease_ && now - entry.heard_at >= limits::suspect_after;
}

/// True when its neighbours decide. Otherwise the node uses its long fence, and only its lease
/// decides.
bool Silence::has_witnesses(const Entry& entry) const {
    return !is_over_ && entry.seat && entry.reached >= limits::least_reached &&
           !seats_.at(*entry.seat).seat.neighbours.empty();
}

std::vector<Witness> Silence::witnesses_of(const Entry& entry, Instant now) const {
    std::vector<Witness> witnesses;
    for (const auto neighbour : seats_.at(entry.seat.value()).seat.neighbours) {
        const auto& [seat, gone_at] = seats_.at(neighbour);
        const auto other = entries_.find(seat.nonce);
        auto state = Witness::State::gone;
        if (other != entries_.end())
            state = is_heard(other->second, now) ? Witness::State::heard : Witness::State::silent;
        witnesses.push_back({seat.nonce, seat.host, state, gone_at});
    }
    return witnesses;
}

Silence::Entry& Silence::entry_of(const Nonce& nonce) {
    const auto found = entries_.find(nonce);
    require(found != entries_.end(), "the node has appeared and was not removed");
    return found->second;
}

const Silence::Entry& Silence::entry_of(const Nonce& nonce) const {
    const auto found = entries_.find(nonce);
    require(found != entries_.end(), "the node has appeared and was not removed");
    return found->second;
}

}  // namespace ddprun::coordinator
