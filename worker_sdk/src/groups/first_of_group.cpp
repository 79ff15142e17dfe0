// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/death_reports.hpp"

#include <algorithm>
#include <sstream>

namespace ddprun::groups {

std::optional<int> first_of_group(
    const std::string& deaths, const std::vector<int>& members, int world_size) {
    std::istringstream ranks(deaths);
    for (int rank = 0; ranks >> rank;) {
        if (members.empty() && rank >= 0 && rank < world_size) return rank;
        const auto place = std::find(members.begin(), members.end(), rank);
        if (place != members.end()) return static_cast<int>(place - members.begin());
    }
    return {};
}

}  // namespace ddprun::groups
