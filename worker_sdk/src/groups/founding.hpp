// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/backend.hpp"
#include "ddprun/store.hpp"
#include "ddprun/world.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::groups {

class Group;

/// What the ranks of a group to be have in common. In the world of a sub-group, rank and size are
/// the sub-group's.
struct Founding {
    World world;
    Store store;
    /// Everything about this group in the store is behind it.
    std::string prefix;
    Backend backend = Backend::automatic;
    std::chrono::milliseconds timeout{};
    /// Its ranks in the world, where it is a sub-group.
    std::vector<int> members{};
};

/// For a group on GPUs that is split off from another, all of whose ranks do so now or stand aside.
struct SplitOff {
    void* part = nullptr;
    void* parent = nullptr;
};

/// Of one more group of the whole world. Ranks create their groups in the same order. Throws
/// UsageError for a world, or a backend or timeout in it, that cannot be.
Founding founding_of_world(
    const World& world, Store store, Backend backend, std::chrono::milliseconds timeout);

/// Finds the peers. Throws; then nobody has taken what `split` has.
std::shared_ptr<Group> found(Founding founding, std::optional<SplitOff> split = {});

}  // namespace ddprun::groups
