// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <map>
#include <string>

namespace ddprun::sim {

/// Invariant 5: every node that gets a result of a job gets the same one, and the budget is never
/// overspent.
class Outcomes {
public:
    explicit Outcomes(int max_restarts) : max_restarts_(max_restarts) {}

    void on_result(
        const std::string& host,
        const std::string& incarnation,
        const control::JobResult& result,
        Complaints& complaints) {
        const auto [known, is_new] = results_.emplace(incarnation, result);
        if (!is_new && known->second != result)
            complaints.push_back(host + " was told of another end than the others");
    }

    void on_worker_started(const WorkerStarted& fact, Complaints& complaints) const {
        if (fact.assignment.restart_count > max_restarts_)
            complaints.push_back(
                "restart " + std::to_string(fact.assignment.restart_count) + " of " +
                std::to_string(max_restarts_));
    }

private:
    int max_restarts_;
    std::map<std::string, control::JobResult> results_;
};

}  // namespace ddprun::sim
