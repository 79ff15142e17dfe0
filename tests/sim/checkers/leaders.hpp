// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace ddprun::sim {

/// With elected servers: an epoch has one leader, and epochs only grow. A server acts only while it
/// owns the leader's key in etcd, or the voters' record names it; and two servers never may act at
/// the same time.
class Leaders {
public:
    void on_elected(const ElectedSeen& fact, Complaints& complaints) {
        const auto [leader, is_new] =
            leaders_.emplace(std::tuple{fact.run_id, fact.erased_count, fact.epoch}, fact.host);
        if (!is_new)
            complaints.push_back(
                fact.host + " leads in epoch " + std::to_string(fact.epoch) + " as " +
                leader->second + " has");
    }

    void on_act(const ActSeen& fact, Complaints& complaints) {
        const auto in_epoch =
            fact.host + " acts in epoch " + std::to_string(fact.epoch) + " (" + fact.what + ")";
        if (fact.epoch != fact.key_epoch)
            complaints.push_back(
                in_epoch + " while the leader's record is of epoch " +
                std::to_string(fact.key_epoch));
        if (!fact.other.empty())
            complaints.push_back(in_epoch + " while the server of " + fact.other + " may act");
        auto& newest = newest_[{fact.run_id, fact.erased_count}];
        if (fact.epoch < newest)
            complaints.push_back(in_epoch + " after one of epoch " + std::to_string(newest));
        newest = std::max(newest, fact.epoch);
    }

private:
    std::map<std::tuple<std::string, int, std::uint64_t>, std::string> leaders_;
    std::map<std::pair<std::string, int>, std::uint64_t> newest_;
};

}  // namespace ddprun::sim
