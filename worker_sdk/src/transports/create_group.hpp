// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group.hpp"
#include "worker_sdk/src/groups/group_config.hpp"

#include <chrono>
#include <memory>
#include <vector>

namespace ddprun::groups {

/// The configuration of the next group of the whole world. Ranks create their groups in the same
/// order. Throws UsageError for an invalid world, backend or timeout.
GroupConfig config_of_world(
    const World& world, Store store, Backend backend, std::chrono::milliseconds timeout);

/// Connects to the peers. Throws.
std::shared_ptr<Group> create_group(GroupConfig config);

/// Creates a group of these ranks of another group. They call it with the same list. Throws.
std::shared_ptr<Group> sub_group(Group& group, const std::vector<int>& ranks);

/// Splits the group: one new group for each color of 0 or more, ordered by key, then by rank. All
/// ranks call it. Null for a negative color. Throws; an error in the group's own calls ends it.
std::shared_ptr<Group> split(Group& group, int color, int key);

}  // namespace ddprun::groups
