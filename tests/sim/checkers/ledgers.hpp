// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

namespace ddprun::sim {

/// No moment of a job is counted twice, whichever servers it had: the phases of its result together
/// are not longer than the history. `Server` checks that each moment is counted.
class Ledgers {
public:
    static void on_result(const ResultSeen& fact, Complaints& complaints) {
        const auto& goodput = fact.result.goodput;
        if (goodput && Instant{goodput->sum()} > fact.at)
            complaints.push_back(
                fact.host + " got a result with phases of " +
                std::to_string(in_seconds(goodput->sum())) + " s after " +
                std::to_string(in_seconds(fact.at.time_since_epoch())) + " s");
    }
};

}  // namespace ddprun::sim
