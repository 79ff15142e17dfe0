// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/checkpoint/folder.hpp"

#include <vector>

namespace ddprun::checkpoint {

/// The files of one save of all ranks.
struct ShardSet {
    Position position;
    /// For each file, by its index: the rank that reads it.
    std::vector<int> readers;

    ShardName name_of(std::size_t index) const { return {position, readers.size(), index}; }
    bool operator==(const ShardSet&) const = default;
};

/// The sets whose files are all in the lists of some ranks, newest first. Ranks that have the same
/// files share the reading.
std::vector<ShardSet> complete_sets(const std::vector<std::vector<ShardName>>& names_by_rank);

}  // namespace ddprun::checkpoint
