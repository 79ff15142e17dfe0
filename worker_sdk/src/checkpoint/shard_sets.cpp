// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/checkpoint/shard_sets.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <utility>

namespace ddprun::checkpoint {

std::vector<ShardSet> complete_sets(const std::vector<std::vector<ShardName>>& names_by_rank) {
    using Key = std::pair<Position, std::uint64_t>;
    std::map<Key, std::map<std::uint64_t, std::vector<int>>, std::greater<>> owners;
    for (std::size_t rank = 0; rank < names_by_rank.size(); ++rank)
        for (const auto& name : names_by_rank[rank])
            owners[{name.position, name.world}][name.index].push_back(static_cast<int>(rank));

    std::vector<ShardSet> sets;
    for (const auto& [key, by_index] : owners) {
        const auto& [position, world] = key;
        if (by_index.size() != world) continue;
        ShardSet set{position, {}};
        for (const auto& [index, ranks] : by_index)
            set.readers.push_back(ranks[index % ranks.size()]);
        sets.push_back(std::move(set));
    }
    return sets;
}

}  // namespace ddprun::checkpoint
