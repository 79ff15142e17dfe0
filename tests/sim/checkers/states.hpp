// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <map>
#include <string>
#include <utility>

namespace ddprun::sim {

/// A kept worker is in a round with a state only; all ranks of a round begin with the same one; its
/// source has that state completely, and no kept worker has a complete one of a later step.
class States {
public:
    void on_worker_started(const WorkerStarted& fact, Complaints& complaints) {
        const auto& state = fact.assignment.state;
        const auto where = "round " + std::to_string(fact.round()) + ", rank " +
                           std::to_string(fact.rank()) + " on " + fact.host + ": ";
        const auto [known, is_first] =
            state_of_.try_emplace({fact.incarnation, fact.round()}, state);
        if (!is_first && known->second != state)
            complaints.push_back(where + "it begins with another state than the others");
        if (!fact.kept) return;
        if (!state) return complaints.push_back(where + "it is kept, and the round has no state");
        const auto& worker = *fact.kept;
        const bool is_complete = worker.is_clean && worker.committed;
        if (is_complete && *worker.committed > state->step)
            complaints.push_back(where + "its state is newer than the round's");
        if (fact.rank() == state->rank && !(is_complete && *worker.committed == state->step))
            complaints.push_back(where + "it does not have the state that all begin with");
    }

private:
    std::map<std::pair<std::string, int>, std::optional<control::StateSource>> state_of_;
};

}  // namespace ddprun::sim
