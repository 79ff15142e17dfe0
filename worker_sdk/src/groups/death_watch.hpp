// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "ddprun/world.hpp"
#include "worker_sdk/src/groups/trouble.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::groups {

/// Which ranks of a group have died, those of other nodes too: the agent of a node writes it into
/// the round's store before it signals anybody because of it. Under other launchers nobody does,
/// and nobody is ever found.
///
/// A value; any thread.
class DeathWatch {
public:
    using Clock = std::chrono::steady_clock;

    /// `members` are the group's ranks in the world; none: all of it.
    DeathWatch(const World& world, std::vector<int> members);

    /// Asks the agents to write. One rank of the round is enough.
    void ask(Store& store) const;
    /// Who of the group died first. Requires: this rank has asked.
    std::optional<Trouble> look(Store& store, std::chrono::milliseconds at_most) const;
    /// Throws PeerLost when one of the group has died, as far as the store answers.
    void require_nobody_died(Store& store) const;
    /// Waits for a key that another rank of the group sets; throws PeerLost when one of them has
    /// died instead, and Timeout.
    std::string await(Store& store, const std::string& key, Clock::time_point until) const;

private:
    /// Empty: nobody writes.
    std::string key_;
    std::vector<int> members_;
    int world_size_;
    int round_;
};

/// The rank in the group of the first in a list of dead ranks ("5 3") that is in it, if one is.
/// Without `members` the group is the world, of that size.
std::optional<int> first_of_group(
    const std::string& deaths, const std::vector<int>& members, int world_size);

}  // namespace ddprun::groups
