// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group.hpp"
#include "worker_sdk/src/groups/group_config.hpp"

#include <chrono>
#include <memory>
#include <vector>

namespace ddprun::groups {

/// Of one more group of the whole world. Ranks create their groups in the same order. Throws
/// UsageError for an invalid world, backend or timeout.
GroupConfig config_of_world(
    const World& world, Store store, Backend backend, std::chrono::milliseconds timeout);

/// Connects to the peers. Throws.
std::shared_ptr<Group> create_group(GroupConfig config);

/// A group of these ranks of another, which call it with the same list. Throws.
std::shared_ptr<Group> sub_group(Group& group, const std::vector<int>& ranks);

/// Of all ranks of the group: one for each color of 0 or more, in the order of keys, then of ranks.
/// Null for a negative color. Throws; an error in the group's own calls ends it.
std::shared_ptr<Group> split(Group& group, int color, int key);

}  // namespace ddprun::groups
