// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/job_record.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

namespace ddprun::voters {

bool is_same_renewal(const JobRecord& a, const JobRecord& b) {
    if (a.epoch != b.epoch || a.counter != b.counter || !a.leader != !b.leader) return false;
    return !a.leader || a.leader->nonce == b.leader->nonce;
}

std::string problem_of(const Leader& leader) {
    if (!is_name(leader.name) || !is_name(leader.address)) return "the leader's name and address";
    return {};
}

std::string problem_of(const JobRecord& record) {
    if (record.ttl > limits::longest_lease) return "a ttl of at most a day";
    if (record.leader)
        if (auto problem = problem_of(*record.leader); !problem.empty()) return problem;
    return problem_of(record.voters);
}

std::string describe(const JobRecord& record) {
    const auto short_name = [](const VoterPlace& place) { return place.nonce.to_short_string(); };
    const Shortening all{limits::max_voters};
    const auto& set = record.voters;
    return "epoch " + std::to_string(record.epoch) + " leader " +
           (record.leader ? record.leader->nonce.to_short_string() : "none") + " renewed " +
           std::to_string(record.counter) + " voters " + std::to_string(set.version) + ": " +
           short_list(set.voters, all, short_name) +
           (set.is_joint() ? " after " + short_list(set.former, all, short_name) : std::string{}) +
           (record.ends.empty() ? std::string{}
                                : ", " + std::to_string(record.ends.size()) + " bytes of ends");
}

}  // namespace ddprun::voters
