// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::sim {

/// The other half of invariant 5: no more restarts than allowed, none without a failure, and no
/// failed job with restarts left. After a restart of the server a job may continue as another
/// incarnation: its count of restarts continues, or starts from 0 if it is another job.
class Budget {
public:
    Budget(int max_restarts, std::vector<int> final_codes)
        : max_restarts_(max_restarts),
          final_codes_(std::move(final_codes)) {}

    void on_round_failed(const RoundFailed& fact) {
        failed_[fact.run_id].emplace(fact.incarnation, fact.round);
    }

    void on_worker_started(const WorkerStarted& fact, Complaints& complaints) const {
        const int given = fact.assignment.restart_count;
        if (given > max_restarts_)
            complaints.push_back(
                "restart " + std::to_string(given) + " of " + std::to_string(max_restarts_));
        const int failures = failures_before(fact.run_id, fact.incarnation, fact.round());
        if (given > failures)
            complaints.push_back(
                "restart " + std::to_string(given) + " in round " + std::to_string(fact.round()) +
                " after " + std::to_string(failures) + " rounds with a failure");
    }

    void on_result(const ResultSeen& fact, Complaints& complaints) const {
        const auto& cause = fact.result.root_cause;
        const bool has_failed = fact.result.outcome == control::Outcome::failed && cause &&
                                (cause->kind == control::Cause::Kind::worker_failed ||
                                 cause->kind == control::Cause::Kind::store_unreachable);
        const bool is_final =
            std::find(final_codes_.begin(), final_codes_.end(), fact.result.exit_code) !=
            final_codes_.end();
        if (!has_failed || is_final) return;
        const int failures = failures_before(fact.run_id, fact.incarnation, cause->round + 1);
        if (failures <= max_restarts_)
            complaints.push_back(
                fact.host + " got the result failed after " + std::to_string(failures) +
                " rounds with a failure and " + std::to_string(max_restarts_) +
                " allowed restarts");
    }

private:
    /// Failures in this round's incarnation before the round, and in all other incarnations.
    int failures_before(
        const std::string& run_id, const std::string& incarnation, int round) const {
        const auto found = failed_.find(run_id);
        if (found == failed_.end()) return 0;
        return static_cast<int>(
            std::count_if(found->second.begin(), found->second.end(), [&](const auto& failed) {
                return failed.first != incarnation || failed.second < round;
            }));
    }

    int max_restarts_;
    /// Exit codes after which there is no restart.
    std::vector<int> final_codes_;
    /// Failed rounds by run id: incarnation and round.
    std::map<std::string, std::set<std::pair<std::string, int>>> failed_;
};

}  // namespace ddprun::sim
