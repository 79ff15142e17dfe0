// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace ddprun::sim {

/// Invariant 1: in a round each rank is given once, and all members were told the same world size
/// and store.
class Ranks {
public:
    void on_worker_started(const WorkerStarted& fact, Complaints& complaints) {
        const auto& told = fact.assignment;
        const auto where = "round " + std::to_string(fact.round()) + ": ";
        auto& world = worlds_[{fact.incarnation, fact.round()}];
        const Same same{
            told.world_size,
            told.group_world_size,
            told.master_addr,
            told.master_port,
            told.restart_count};
        if (world.ranks.empty()) world.same = same;
        if (world.same != same)
            complaints.push_back(where + fact.host + " was told of another world than the others");
        if (fact.rank() < 0 || fact.rank() >= told.world_size)
            complaints.push_back(where + "rank " + std::to_string(fact.rank()) + " is none");
        const auto [holder, is_new] = world.ranks.emplace(fact.rank(), fact.host);
        if (!is_new)
            complaints.push_back(
                where + "rank " + std::to_string(fact.rank()) + " on " + holder->second +
                " and on " + fact.host);
        const auto [group, is_new_group] = world.group_ranks.emplace(told.group_rank, fact.host);
        if (!is_new_group && group->second != fact.host)
            complaints.push_back(
                where + "group rank " + std::to_string(told.group_rank) + " on two hosts");
    }

    /// The store of the round counted a worker. One more than there is room for?
    void on_arrived(
        const std::string& incarnation,
        const control::Assignment& told,
        std::int64_t count,
        Complaints& complaints) {
        if (count == told.world_size) worlds_[{incarnation, told.round}].is_complete = true;
        if (count > told.world_size)
            complaints.push_back(
                "round " + std::to_string(told.round) + ": " + std::to_string(count) +
                " workers in the store of a world of " + std::to_string(told.world_size));
    }

    /// A worker waited for the others in vain, on a network that never failed.
    void on_waited_in_vain(
        const std::string& host,
        const std::string& incarnation,
        const control::Assignment& told,
        Complaints& complaints) {
        if (worlds_[{incarnation, told.round}].is_complete)
            complaints.push_back(
                "round " + std::to_string(told.round) + ": a worker on " + host +
                " is not told that everybody has arrived");
    }

private:
    using Same = std::tuple<int, int, std::string, int, int>;
    struct WorldOfRound {
        Same same;
        std::map<int, std::string> ranks;
        std::map<int, std::string> group_ranks;
        /// Everybody has arrived in its store.
        bool is_complete = false;
    };
    std::map<std::pair<std::string, int>, WorldOfRound> worlds_;
};

}  // namespace ddprun::sim
