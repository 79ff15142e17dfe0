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

/// Which ranks of a group have died: the agent of a node writes it into the round's store before it
/// signals any other worker because of it. Other launchers write no such reports.
///
/// A value; any thread.
class DeathReports {
public:
    using Clock = std::chrono::steady_clock;

    /// `members` are the group's ranks in the world; none: the whole world.
    DeathReports(const World& world, std::vector<int> members);

    /// Requests reports from the agents. One rank of the round is enough.
    void ask(Store& store) const;
    /// The rank of the group that died first. Requires: this rank has requested reports.
    std::optional<GroupError> look(Store& store, std::chrono::milliseconds at_most) const;
    /// Throws PeerLost when a rank of the group has died, if the store answers.
    void require_no_deaths(Store& store) const;
    /// Waits for a key that another rank of the group sets; throws PeerLost when one of them has
    /// died instead, Timeout, and what `check` throws, which is called now and then.
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

/// The first of a list of dead ranks ("5 3") that is in the group, as its rank in the group.
/// Without `members` the group is the world, of that size.
std::optional<int> first_of_group(
    const std::string& deaths, const std::vector<int>& members, int world_size);

}  // namespace ddprun::groups
