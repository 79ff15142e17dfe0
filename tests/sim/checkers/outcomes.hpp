// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <map>
#include <string>

namespace ddprun::sim {

/// Half of invariant 5: every node that gets a result of a job gets the same one, and ends with the
/// exit code that it names.
class Outcomes {
public:
    void on_result(const ResultTold& fact, Complaints& complaints) {
        if (fact.incarnation.empty())
            complaints.push_back(fact.host + " is told the end of a job that it was never in");
        const auto [known, is_new] = results_.emplace(fact.incarnation, fact.result);
        if (!is_new && known->second != fact.result)
            complaints.push_back(fact.host + " was told of another end than the others");
        told_[fact.host] = fact.result;
    }

    void on_exit(const std::string& host, int exit_code, Complaints& complaints) const {
        const auto told = told_.find(host);
        if (told == told_.end() || told->second.exit_code == exit_code) return;
        complaints.push_back(
            host + " ends with exit code " + std::to_string(exit_code) + ", and was told " +
            std::to_string(told->second.exit_code));
    }

private:
    std::map<std::string, control::JobResult> results_;  ///< by incarnation
    std::map<std::string, control::JobResult> told_;     ///< by host, the last
};

}  // namespace ddprun::sim
