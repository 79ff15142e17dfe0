// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::sim {

/// Where nodes vote about the leader: the records that a majority of their voters have accepted are
/// one history. In the order of their ballots epochs and sets of voters never go back, an epoch has
/// one leader, and a leader that has stepped down never leads again in that epoch.
class Votes {
public:
    void on_accepted(const AcceptSeen& fact, Complaints& complaints) {
        auto& votes = jobs_[fact.run_id];
        const auto& record = fact.record;
        votes.renewed_at.try_emplace({record.epoch, record.counter}, fact.at);
        auto& attempt = votes.attempts.try_emplace(fact.ballot, Attempt{record}).first->second;
        if (attempt.record != record)
            complaints.push_back("two records of job " + fact.run_id + " have one ballot");
        attempt.accepted_by.insert(fact.voter);
        const bool is_new = is_quorum(record.voters, attempt.accepted_by) && !votes.is_chosen(fact);
        if (is_new) on_chosen(votes, fact, complaints);
    }

    /// The epoch of the leader that the record names; 0: it names none, or one that was not renewed
    /// for its ttl.
    std::uint64_t epoch_of_leader(const std::string& run_id, Instant now) const {
        const auto* newest = newest_of(run_id);
        if (newest == nullptr || !newest->leader) return 0;
        const auto renewed_at = jobs_.at(run_id).renewed_at.at({newest->epoch, newest->counter});
        return now - renewed_at < newest->ttl ? newest->epoch : 0;
    }

    /// Whether too few voters are left to change the record.
    bool is_lost(const std::string& run_id, const std::set<Nonce>& living) const {
        const auto found = jobs_.find(run_id);
        if (found == jobs_.end() || found->second.chosen.empty()) return false;
        const auto& [attempts, chosen, renewed_at] = found->second;
        return std::any_of(
            attempts.find(chosen.rbegin()->first), attempts.end(), [&](const auto& attempt) {
                return !is_quorum(attempt.second.record.voters, living);
            });
    }

private:
    using Record = voters::JobRecord;
    struct Attempt {
        Record record;
        std::set<Nonce> accepted_by = {};
    };
    struct OfJob {
        std::map<voters::Ballot, Attempt> attempts;
        std::map<voters::Ballot, Record> chosen;
        /// When the first voter got an election or renewal, by epoch and counter.
        std::map<std::pair<std::uint64_t, std::uint64_t>, Instant> renewed_at;

        bool is_chosen(const AcceptSeen& fact) const { return chosen.contains(fact.ballot); }
    };

    static bool is_majority(
        const std::vector<control::VoterPlace>& places, const std::set<Nonce>& some) {
        std::size_t count = 0;
        for (const auto& place : places)
            count += some.count(place.nonce);
        return 2 * count > places.size();
    }

    static bool is_quorum(const control::VoterSet& set, const std::set<Nonce>& some) {
        return is_majority(set.voters, some) &&
               (set.former.empty() || is_majority(set.former, some));
    }

    const Record* newest_of(const std::string& run_id) const {
        const auto found = jobs_.find(run_id);
        if (found == jobs_.end() || found->second.chosen.empty()) return nullptr;
        return &found->second.chosen.rbegin()->second;
    }

    static void on_chosen(OfJob& votes, const AcceptSeen& fact, Complaints& complaints) {
        const auto own = votes.chosen.emplace(fact.ballot, fact.record).first;
        if (own != votes.chosen.begin()) check(std::prev(own)->second, own->second, complaints);
        if (const auto next = std::next(own); next != votes.chosen.end())
            check(own->second, next->second, complaints);
    }

    static void check(const Record& older, const Record& newer, Complaints& complaints) {
        if (newer.lineage != older.lineage) complaints.push_back("a job has two records");
        if (newer.epoch < older.epoch || newer.voters.version < older.voters.version)
            complaints.push_back(
                "the record of epoch " + std::to_string(newer.epoch) + " and voters " +
                std::to_string(newer.voters.version) + " is chosen after one of epoch " +
                std::to_string(older.epoch) + " and voters " +
                std::to_string(older.voters.version));
        if (newer.epoch == older.epoch && newer.leader && newer.leader != older.leader)
            complaints.push_back(
                "epoch " + std::to_string(newer.epoch) + " has two leaders in the record");
    }

    std::map<std::string, OfJob> jobs_;
};

}  // namespace ddprun::sim
