// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

namespace ddprun::groups {

class Group;

/// A group of these ranks of another, which call it with the same list. Throws.
std::shared_ptr<Group> sub_group(Group& group, const std::vector<int>& ranks);

/// Of all ranks of the group: one for each color of 0 or more, in the order of keys, then of ranks.
/// Null for a negative color. Throws; an error in the group's own calls ends it.
std::shared_ptr<Group> split(Group& group, int color, int key);

}  // namespace ddprun::groups
