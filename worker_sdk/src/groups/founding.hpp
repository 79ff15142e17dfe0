// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"
#include "ddprun/store.hpp"
#include "ddprun/world.hpp"

#include <string>

namespace ddprun::groups {

/// What the ranks of a group to be have in common. In the world of a sub-group, rank and size are
/// the sub-group's.
struct Founding {
    World world;
    Store store;
    /// Everything about this group in the store is behind it.
    std::string prefix;
    ProcessGroup::Options options;
};

/// Everything the SDK writes into the store for one more group of the whole world. Ranks create
/// their groups in the same order.
std::string prefix_of_next_group(const World& world, Store& store);

/// Finds the peers. Throws.
ProcessGroup found(Founding founding);

}  // namespace ddprun::groups
