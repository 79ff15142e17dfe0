// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/exit_codes.hpp"
#include "tests/sim/checkers/facts.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

namespace ddprun::sim {

/// When a job's result states that every rank has saved, every rank must have saved, and the last
/// saved step must be the same on all ranks.
class Saves {
public:
    void on_worker_started(const WorkerStarted& fact) {
        auto& round = rounds_[{fact.run_id, fact.incarnation, fact.round()}];
        round.world_size = fact.assignment.world_size;
    }

    void on_saved(const RankSaved& fact) {
        rounds_[{fact.run_id, fact.incarnation, fact.round}].step_of[fact.rank] = fact.step;
    }

    void on_result(const ResultSeen& fact, Complaints& complaints) {
        const auto& cause = fact.result.root_cause;
        if (fact.result.exit_code != exit_codes::saved || !cause) return;
        const auto& round = rounds_[{fact.run_id, fact.incarnation, cause->round}];
        std::set<std::uint64_t> steps;
        for (const auto& [rank, step] : round.step_of)
            steps.insert(step);
        const bool is_whole =
            static_cast<int>(round.step_of.size()) == round.world_size && steps.size() == 1;
        if (!is_whole)
            complaints.push_back(
                fact.host + " got the result that all ranks saved one step: " +
                std::to_string(round.step_of.size()) + " of " + std::to_string(round.world_size) +
                " did, " + std::to_string(steps.size()) + " different ones");
    }

private:
    struct RoundSaves {
        int world_size = 0;
        std::map<int, std::uint64_t> step_of;
    };

    std::map<std::tuple<std::string, std::string, int>, RoundSaves> rounds_;
};

}  // namespace ddprun::sim
