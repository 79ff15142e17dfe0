// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace ddprun::sim {

/// Invariant 1: in a round each rank is assigned once, all members have the same world size and
/// store, and the number of nodes is a multiple of `node_unit`.
class Ranks {
public:
    explicit Ranks(int node_unit) : node_unit_(node_unit) {}

    void on_worker_started(const WorkerStarted& fact, Complaints& complaints) {
        const auto& given = fact.assignment;
        const auto where = "round " + std::to_string(fact.round()) + ": ";
        auto& world = worlds_[{fact.incarnation, fact.round()}];
        const Same same{
            given.world_size,
            given.group_world_size,
            given.master_addr,
            given.master_port,
            given.restart_count};
        if (world.is_of_lost_daemon && world.same != same) world = {};
        if (world.ranks.empty()) world.same = same;
        if (world.same != same)
            complaints.push_back(where + fact.host + " got another world than the others");
        if (given.group_world_size % node_unit_ != 0)
            complaints.push_back(
                where + std::to_string(given.group_world_size) + " nodes, and the unit is " +
                std::to_string(node_unit_));
        if (fact.rank() < 0 || fact.rank() >= given.world_size)
            complaints.push_back(where + "rank " + std::to_string(fact.rank()) + " is none");
        const auto [holder, is_new] = world.ranks.emplace(fact.rank(), fact.host);
        if (!is_new)
            complaints.push_back(
                where + "rank " + std::to_string(fact.rank()) + " on " + holder->second +
                " and on " + fact.host);
        const auto [group, is_new_group] = world.group_ranks.emplace(given.group_rank, fact.host);
        if (!is_new_group && group->second != fact.host)
            complaints.push_back(
                where + "group rank " + std::to_string(given.group_rank) + " on two hosts");
    }

    /// A restarted daemon may give a job the name of the lost one, since that is the name of the
    /// node that began both: the first answer has not reached it.
    void on_daemon_replaced() {
        for (auto& [round, world] : worlds_)
            world.is_of_lost_daemon = true;
    }

    /// The store of the round counted a worker; there must not be more than the world size.
    void on_arrived(
        const std::string& incarnation,
        const control::Assignment& given,
        std::int64_t count,
        Complaints& complaints) {
        if (count == given.world_size) worlds_[{incarnation, given.round}].is_complete = true;
        if (count > given.world_size)
            complaints.push_back(
                "round " + std::to_string(given.round) + ": " + std::to_string(count) +
                " workers in the store of a world of " + std::to_string(given.world_size));
    }

    /// A worker timed out while it waited for the others, although the network never failed.
    void on_waited_in_vain(
        const std::string& host,
        const std::string& incarnation,
        const control::Assignment& given,
        Complaints& complaints) {
        if (worlds_[{incarnation, given.round}].is_complete)
            complaints.push_back(
                "round " + std::to_string(given.round) + ": a worker on " + host +
                " still waits although all have arrived");
    }

private:
    using Same = std::tuple<int, int, std::string, int, int>;
    struct WorldOfRound {
        Same same;
        std::map<int, std::string> ranks;
        std::map<int, std::string> group_ranks;
        bool is_of_lost_daemon = false;
        /// Whether all workers have arrived in its store.
        bool is_complete = false;
    };
    int node_unit_;
    std::map<std::pair<std::string, int>, WorldOfRound> worlds_;
};

}  // namespace ddprun::sim
