// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::voters {

/// A process that votes, and its address. A process that is started again has another nonce, and is
/// so another voter: no voter forgets what it has promised.
struct VoterPlace {
    std::string address;
    Nonce nonce;
    bool operator==(const VoterPlace&) const = default;
};

/// The voters of a job. During a change there are two sets at once, and a quorum has a majority of
/// each of them.
struct VoterSet {
    /// Each change has two steps, and each of them increments it.
    std::uint64_t version = 0;
    std::vector<VoterPlace> voters;
    /// During a change: the voters before it.
    std::vector<VoterPlace> former;
    bool operator==(const VoterSet&) const = default;

    bool is_joint() const { return !former.empty(); }
    bool has(const Nonce& voter) const { return is_in(voters, voter) || is_in(former, voter); }

    /// Whether the voters for which `is_counted` is true are a quorum.
    template <class IsCounted>
    bool has_quorum(IsCounted is_counted) const {
        return has_majority(voters, is_counted) &&
               (!is_joint() || has_majority(former, is_counted));
    }

    template <class IsCounted>
    static bool has_majority(const std::vector<VoterPlace>& places, IsCounted is_counted) {
        const auto count =
            std::count_if(places.begin(), places.end(), [&](const VoterPlace& place) {
                return is_counted(place.nonce);
            });
        return 2 * static_cast<std::size_t>(count) > places.size();
    }

private:
    static bool is_in(const std::vector<VoterPlace>& places, const Nonce& voter) {
        return std::any_of(places.begin(), places.end(), [&](const VoterPlace& place) {
            return place.nonce == voter;
        });
    }
};

/// The first step of a change. Requires: no change is in progress.
VoterSet jointly(const VoterSet& set, std::vector<VoterPlace> voters);
/// The second step. Requires: a change is in progress, and its first step is chosen.
VoterSet finished(const VoterSet& set);

/// Whether it may be a name or an address in a record: every voter must have the same record, so
/// it must not change when it is written.
bool is_name(const std::string& text);
/// Why these cannot be voters; empty: they can.
std::string problem_of(const std::vector<VoterPlace>& places);
std::string problem_of(const VoterSet& set);

}  // namespace ddprun::voters
