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

/// The configuration of a group that is being created. In the world of a sub-group, rank and size
/// are the sub-group's.
struct Founding {
    World world;
    Store store;
    /// The prefix of all keys of this group in the store.
    std::string prefix;
    Backend backend = Backend::automatic;
    std::chrono::milliseconds timeout{};
    /// For a sub-group: its ranks in the world.
    std::vector<int> members{};
};

/// For a group on GPUs that is split off from another group, all of whose ranks take part in the
/// split.
struct SplitOff {
    void* part = nullptr;
    void* parent = nullptr;
};

/// Of one more group of the whole world. Ranks create their groups in the same order. Throws
/// UsageError for an invalid world, backend or timeout.
Founding founding_of_world(
    const World& world, Store store, Backend backend, std::chrono::milliseconds timeout);

/// Connects to the peers. Throws; then the communicator of `split` is still the caller's.
std::shared_ptr<Group> found(Founding founding, std::optional<SplitOff> split = {});

}  // namespace ddprun::groups
