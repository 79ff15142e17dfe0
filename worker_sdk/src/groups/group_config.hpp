// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/backend.hpp"
#include "ddprun/store.hpp"
#include "ddprun/world.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace ddprun::groups {

/// The configuration of a group that is being created. In the world of a sub-group, rank and size
/// are the sub-group's.
struct GroupConfig {
    World world;
    Store store;
    /// The prefix of all keys of this group in the store.
    std::string prefix;
    Backend backend = Backend::automatic;
    std::chrono::milliseconds timeout{};
    /// For a sub-group: its ranks in the world.
    std::vector<int> members{};
};

/// What is fixed when the group is made, apart from its transport.
struct GroupSettings {
    int rank = 0;
    int world_size = 1;
    Backend backend = Backend::loopback;
    std::chrono::milliseconds timeout = waiting_times::default_group_timeout;
    int round = 0;
};

}  // namespace ddprun::groups
