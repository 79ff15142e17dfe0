// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/death_watch.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/store_names.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Who waits for a peer's key asks this often whether the peer is dead.
constexpr milliseconds between_looks_for_deaths = 500ms;
constexpr milliseconds patience_for_deaths = 2s;

}  // namespace

DeathWatch::DeathWatch(const World& world, std::vector<int> members)
    : members_(std::move(members)),
      world_size_(world.world_size),
      round_(world.round) {
    // Agents write into stores of their own, and are the only ones that tell the incarnation.
    if (!world.incarnation.empty() && !world.rank_0_hosts_store)
        key_ = store_names::deaths(world.incarnation, world.round, world.restart_count);
}

void DeathWatch::ask(Store& store) const {
    if (!key_.empty()) store.compare_set(key_, "", store_names::nobody_died);
}

std::optional<Trouble> DeathWatch::look(Store& store, milliseconds at_most) const {
    if (key_.empty()) return {};
    const auto first = first_of_group(store.get(key_, at_most), members_, world_size_);
    if (!first) return {};
    return Trouble{
        Trouble::Kind::peer_lost, "lost " + text_of({*first}) + " (its process ended)", {*first}};
}

void DeathWatch::require_nobody_died(Store& store) const {
    std::optional<Trouble> trouble;
    try {
        trouble = look(store, patience_for_deaths);
    } catch (const Timeout&) {
        // It, or this process, stood still for a moment; throws when it does so for long.
        store.check({key_});
    }
    if (trouble) throw_trouble(*trouble, round_);
}

std::string DeathWatch::await(Store& store, const std::string& key, Clock::time_point until) const {
    for (;;) {
        const auto left = std::max(std::chrono::ceil<milliseconds>(until - Clock::now()), 1ms);
        // The last attempt says in its own words that the key did not come.
        if (key_.empty() || left <= between_looks_for_deaths) return store.get(key, left);
        try {
            return store.get(key, between_looks_for_deaths);
        } catch (const Timeout&) {
            require_nobody_died(store);
        }
    }
}

}  // namespace ddprun::groups
