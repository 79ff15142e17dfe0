// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "ddprun/world.hpp"
#include "worker_sdk/src/groups/group_error.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::groups {

/// Reads which ranks of a group have died. A node's agent writes a death into the round's store
/// before it signals other workers because of it. Other launchers write no such reports.
///
/// A value; any thread.
class DeathReports {
public:
    using Clock = std::chrono::steady_clock;

    /// `members` are the group's ranks in the world; empty means the whole world.
    DeathReports(const World& world, std::vector<int> members);

    /// Requests reports from the agents. A request by one rank of the round is enough.
    void ask(Store& store) const;
    /// The rank of the group that died first. Requires: this rank has requested reports.
    std::optional<GroupError> look(Store& store, std::chrono::milliseconds at_most) const;
    /// Throws PeerLost when a rank of the group has died, and the store's error when the store
    /// stays silent.
    void require_no_deaths(Store& store) const;
    /// Waits for a key that another rank of the group sets. Throws PeerLost when a rank of the
    /// group has died instead, Timeout, and the error of `check`, which is called now and then.
    std::string await(
        Store& store,
        const std::string& key,
        Clock::time_point until,
        const std::function<void()>& check) const;

private:
    /// Empty: there are no reports.
    std::string key_;
    std::vector<int> members_;
    int world_size_;
    int round_;
};

/// Takes a list of dead ranks ("5 3") and returns the first that is in the group, as its rank in
/// the group. Without `members` the group is a world of that size.
std::optional<int> first_of_group(
    const std::string& deaths, const std::vector<int>& members, int world_size);

}  // namespace ddprun::groups
