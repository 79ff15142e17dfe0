// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <map>
#include <string>

namespace ddprun::sim {

/// Half of invariant 5: every node that gets a job's result gets the same one, and exits with its
/// exit code. Members also get the text of the failed worker.
class Outcomes {
public:
    void on_result(const ResultSeen& fact, Complaints& complaints) {
        if (fact.incarnation.empty())
            complaints.push_back(fact.host + " got the result of a job that it was never in");
        const auto [known, is_new] = results_.emplace(fact.incarnation, fact.result);
        if (!is_new && !is_same(known->second, fact.result))
            complaints.push_back(fact.host + " got another result than the others");
        if (known->second == without_text(known->second)) known->second = fact.result;
        if (fact.is_read) given_[fact.host] = fact.result;
    }

    void on_exit(const std::string& host, int exit_code, Complaints& complaints) const {
        const auto given = given_.find(host);
        if (given == given_.end() || given->second.exit_code == exit_code) return;
        complaints.push_back(
            host + " ends with exit code " + std::to_string(exit_code) + ", and the result said " +
            std::to_string(given->second.exit_code));
    }

private:
    static control::JobResult without_text(control::JobResult result) {
        if (!result.root_cause || !result.root_cause->worker) return result;
        auto& worker = *result.root_cause->worker;
        worker.message.clear();
        worker.why.clear();
        worker.error_file.clear();
        worker.log_file.clear();
        worker.details.clear();
        worker.from_error_file = {};
        return result;
    }

    /// A node that is no longer a member gets all but the text of the failed worker.
    static bool is_same(const control::JobResult& one, const control::JobResult& other) {
        const auto bare = without_text(one);
        if (one == other) return true;
        return bare == without_text(other) && (one == bare || other == bare);
    }

    std::map<std::string, control::JobResult> results_;  ///< by incarnation
    std::map<std::string, control::JobResult> given_;    ///< by host: the last one
};

}  // namespace ddprun::sim
