// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/voter_set.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <set>
#include <utility>

namespace ddprun::voters {

VoterSet jointly(const VoterSet& set, std::vector<VoterPlace> voters) {
    require(!set.is_joint(), "two changes of the voters at once");
    return {set.version + 1, std::move(voters), set.voters};
}

VoterSet finished(const VoterSet& set) {
    require(set.is_joint(), "no change of the voters is in progress");
    return {set.version + 1, set.voters, {}};
}

std::string problem_of(const std::vector<VoterPlace>& places) {
    if (places.empty() || places.size() > limits::max_voters)
        return "1 to " + std::to_string(limits::max_voters) + " voters";
    std::set<Nonce> nonces;
    for (const auto& place : places) {
        if (!nonces.insert(place.nonce).second) return "a voter comes twice";
        if (!is_name(place.address)) return "the address of a voter";
    }
    return {};
}

std::string problem_of(const VoterSet& set) {
    if (auto problem = problem_of(set.voters); !problem.empty()) return problem;
    return set.is_joint() ? problem_of(set.former) : std::string{};
}

}  // namespace ddprun::voters
