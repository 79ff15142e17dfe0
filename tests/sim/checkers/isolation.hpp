// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <map>
#include <string>
#include <utility>

namespace ddprun::sim {

/// Invariant 6: two jobs on one server are isolated from each other.
class Isolation {
public:
    void on_worker_started(const WorkerStarted& fact, Complaints& complaints) {
        const auto [known, is_new] = run_ids_.emplace(fact.incarnation, fact.run_id);
        if (!is_new && known->second != fact.run_id)
            complaints.push_back(
                fact.host + " of job " + fact.run_id + " is in a round of job " + known->second);
        const std::pair store{fact.assignment.master_addr, fact.assignment.master_port};
        const auto [user, is_unused] = stores_.emplace(store, fact.run_id);
        if (!is_unused && user->second != fact.run_id)
            complaints.push_back(
                fact.host + " of job " + fact.run_id + " uses a store of job " + user->second);
    }

    void on_result(const ResultSeen& fact, Complaints& complaints) const {
        const auto known = run_ids_.find(fact.incarnation);
        if (known != run_ids_.end() && known->second != fact.run_id)
            complaints.push_back(
                fact.host + " of job " + fact.run_id + " got the result of job " + known->second);
    }

private:
    std::map<std::string, std::string> run_ids_;  ///< by incarnation
    std::map<std::pair<std::string, int>, std::string> stores_;
};

}  // namespace ddprun::sim
