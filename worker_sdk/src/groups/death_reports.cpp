// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/death_reports.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/store_names.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

}  // namespace

DeathReports::DeathReports(const World& world, std::vector<int> members)
    : members_(std::move(members)),
      world_size_(world.world_size),
      round_(world.round) {
    // Agents write only into their own stores, and only agents set an incarnation.
    if (!world.incarnation.empty() && !world.rank_0_hosts_store)
        key_ = store_names::deaths(world.incarnation, world.round, world.restart_count);
}

void DeathReports::ask(Store& store) const {
    if (!key_.empty()) store.compare_set(key_, "", store_names::no_deaths);
}

std::optional<GroupError> DeathReports::look(Store& store, milliseconds at_most) const {
    if (key_.empty()) return {};
    const auto first = first_of_group(store.get(key_, at_most), members_, world_size_);
    if (!first) return {};
    return GroupError{
        GroupError::Kind::peer_lost,
        "lost " + text_of({*first}) + " (its process ended)",
        {*first}};
}

void DeathReports::require_no_deaths(Store& store) const {
    std::optional<GroupError> error;
    try {
        error = look(store, waiting_times::store_answer_timeout);
    } catch (const Timeout&) {
        // The store or this process was stopped for a moment. This throws when the store stays
        // silent.
        store.check({key_});
    }
    if (error) throw_error(*error, round_);
}

std::string DeathReports::await(
    Store& store,
    const std::string& key,
    Clock::time_point until,
    const std::function<void()>& check) const {
    using namespace waiting_times;
    // The interval grows with the number of ranks, so that the total rate of queries stays the
    // same.
    const auto interval = std::clamp(
        milliseconds(world_size_), shortest_death_check_interval, longest_death_check_interval);
    for (;;) {
        const auto left = std::max(std::chrono::ceil<milliseconds>(until - Clock::now()), 1ms);
        try {
            return store.get(key, std::min(left, interval));
        } catch (const Timeout& thrown) {
            if (key_.empty())
                store.check({key});  // throws when the store is silent for long
            else
                require_no_deaths(store);
            check();
            if (Clock::now() >= until) throw Timeout("store: a peer has not set " + key);
        }
    }
}

}  // namespace ddprun::groups
