// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Which processes vote about the leader of a job. Parts of messages; what votes are, and why they
/// are safe: rendezvous/voters/.
namespace ddprun::control {

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

/// Numbers an attempt to read or change the record that has the voters. No two attempts have the
/// same.
struct Ballot {
    std::uint64_t counter = 0;
    /// The nonce of the proposer's process.
    Nonce proposer;
    auto operator<=>(const Ballot&) const = default;
};

}  // namespace ddprun::control
