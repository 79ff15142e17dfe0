// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace ddprun::sim {

/// Invariants 2 and 3: round numbers only grow, and no worker starts while one of an earlier round
/// of its job still lives.
class Rounds {
public:
    void on_worker_started(const WorkerStarted& fact, Complaints& complaints) {
        auto& newest = newest_[fact.incarnation];
        if (fact.round() < newest)
            complaints.push_back(
                fact.host + " starts round " + std::to_string(fact.round()) + " after round " +
                std::to_string(newest));
        newest = std::max(newest, fact.round());
        for (const auto& [worker, other] : living_)
            if (other.incarnation == fact.incarnation && other.round() != fact.round())
                complaints.push_back(
                    fact.host + " starts round " + std::to_string(fact.round()) + " while " +
                    other.host + " has a worker of round " + std::to_string(other.round()));
        living_[{fact.host, fact.pid}] = fact;
    }

    void on_worker_ended(const std::string& host, int pid) { living_.erase({host, pid}); }

    std::size_t living_count() const { return living_.size(); }

private:
    std::map<std::string, int> newest_;
    std::map<std::pair<std::string, int>, WorkerStarted> living_;
};

}  // namespace ddprun::sim
