// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/voter.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace ddprun::voters {
namespace {

/// The record has a node's nonce until the leader has changed the voters; that of a leader is the
/// one that its process had when its server began.
constexpr std::size_t most_names = 1'000;

}  // namespace

void Voter::add_name(Nonce name) {
    if (is_own(name)) return;
    if (names_.size() == most_names) names_.erase(std::next(names_.begin()));
    names_.push_back(name);
}

bool Voter::is_own(const Nonce& name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
}

bool Voter::is_in(const VoterSet& set) const {
    return std::any_of(
        names_.begin(), names_.end(), [&](const Nonce& name) { return set.has(name); });
}

bool Voter::create(const std::string& job, Nonce lineage, std::string address, Instant now) {
    if (jobs_.contains(job)) return false;
    auto* created = find(job, lineage);
    if (created == nullptr) return false;
    JobRecord record;
    record.lineage = lineage;
    record.voters.voters = {{std::move(address), names_.back()}};
    // Below every ballot of a proposer: theirs count from 1.
    created->accepted = Kept{{0, names_.back()}, std::move(record), now};
    return true;
}

Answer Voter::handle(const Request& request, Instant now) {
    return std::visit(
        Overloaded{
            [&](const Prepare& prepare) { return on_prepare(prepare, now); },
            [&](const Accept& accept) { return on_accept(accept, now); },
        },
        request);
}

const JobRecord* Voter::last_accepted(const std::string& job) const {
    const auto found = jobs_.find(job);
    if (found == jobs_.end() || !found->second.accepted) return nullptr;
    return &found->second.accepted->record;
}

bool Voter::misses_leader(const std::string& job, Instant now) const {
    const auto found = jobs_.find(job);
    if (found == jobs_.end() || !found->second.accepted) return false;
    const auto& [ballot, record, renewed_at] = *found->second.accepted;
    return record.leader && now - renewed_at >= record.ttl;
}

// A process that has not voted about the job yet is a voter that has accepted nothing: it never
// forgets, so that is true (for a witness: FORMAT.md). That is how a new voter begins.
Voter::Register* Voter::find(const std::string& job, const Nonce& lineage) {
    auto found = jobs_.find(job);
    if (found == jobs_.end()) {
        if (jobs_.size() >= limits::max_voted_jobs) return nullptr;
        found = jobs_.emplace(job, Register{lineage}).first;
    }
    return found->second.lineage == lineage ? &found->second : nullptr;
}

Answer Voter::on_prepare(const Prepare& prepare, Instant now) {
    const auto& ballot = prepare.ballot;
    if (!is_own(prepare.voter)) return Unknown{ballot};
    auto* own = find(prepare.job, prepare.lineage);
    if (own == nullptr) return Unknown{ballot};
    // The same ballot again: the request is a duplicate.
    if (ballot < own->promised) return Refused{ballot, own->promised};
    own->promised = ballot;
    if (!own->accepted) return Promise{ballot, std::nullopt};
    const auto& kept = *own->accepted;
    return Promise{ballot, Vote{kept.ballot, kept.record, now - kept.renewed_at}};
}

Answer Voter::on_accept(const Accept& accept, Instant now) {
    const auto& ballot = accept.ballot;
    const auto& record = accept.record;
    if (!is_own(accept.voter) || !record.voters.has(accept.voter)) return Unknown{ballot};
    auto* own = find(accept.job, record.lineage);
    if (own == nullptr) return Unknown{ballot};
    if (ballot < own->promised) return Refused{ballot, own->promised};
    own->promised = ballot;
    // The record may be written again, by another proposer or for other voters, without a renewal.
    const bool is_renewal = !own->accepted || !is_same_renewal(own->accepted->record, record);
    const auto renewed_at = is_renewal ? now : own->accepted->renewed_at;
    own->accepted = Kept{ballot, record, renewed_at};
    return Accepted{ballot};
}

}  // namespace ddprun::voters
