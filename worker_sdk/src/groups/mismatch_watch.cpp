// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/mismatch_watch.hpp"

#include "ddprun/error.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::groups {

namespace {

/// For the store. One that is gone refuses at once.
constexpr std::chrono::milliseconds patience{2000};

/// Where all ranks that are at the same point of the program meet.
std::string place_of(const Collective& collective) {
    const auto number = std::to_string(collective.sequence);
    if (!collective.is_point_to_point()) return number;
    return std::to_string(collective.root) + "-" + std::to_string(collective.receiver) + "/" +
           number;
}

}  // namespace

MismatchWatch::MismatchWatch(Store store, std::string prefix, int rank, DeathWatch deaths)
    : store_(std::move(store)),
      prefix_(std::move(prefix)),
      rank_(rank),
      deaths_(std::move(deaths)) {}

std::optional<Trouble> MismatchWatch::look(const Collective& collective) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return {};
    try {
        if (auto found = told_by_others()) return found;
        connection().set(waiting_key(rank_), place_of(collective));
        return compare(collective);
    } catch (const Error&) {
        own_connection_.reset();
        return {};
    }
}

Trouble MismatchWatch::agreed(Trouble trouble) {
    const std::lock_guard lock(mutex_);
    try {
        if (auto told = told_by_others()) return *told;
        // Who runs out of time leaves, and is not to be taken for lost because of it.
        if (!trouble.ranks.empty() || trouble.kind == Trouble::Kind::timeout) put(trouble);
    } catch (const Error&) {
        own_connection_.reset();
    }
    return trouble;
}

std::optional<Trouble> MismatchWatch::told() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return {};
    try {
        return told_by_others();
    } catch (const Error&) {
        own_connection_.reset();
        return {};
    }
}

void MismatchWatch::tell(const Trouble& trouble) {
    const std::lock_guard lock(mutex_);
    try {
        put(trouble);
    } catch (const Error&) {
        own_connection_.reset();
    }
}

std::vector<int> MismatchWatch::unheard(
    const Collective& collective, const std::vector<int>& ranks) {
    const std::lock_guard lock(mutex_);
    std::vector<int> silent;
    try {
        auto& store = connection();
        for (const int rank : ranks) {
            const auto key = waiting_key(rank);
            const bool waits =
                store.check({key}) && store.get(key, patience) == place_of(collective);
            if (!waits) silent.push_back(rank);
        }
    } catch (const Error&) {
        own_connection_.reset();
        return {};
    }
    return silent;
}

/// One for each rank, whatever it waits for: slow calls must not fill the store.
std::string MismatchWatch::waiting_key(int rank) const {
    return prefix_ + "waits/" + std::to_string(rank);
}

std::optional<Trouble> MismatchWatch::compare(const Collective& collective) {
    const auto here = describe(collective);
    const auto mine = text_of({rank_}) + " is at " + here;
    const auto key = prefix_ + "at/" + place_of(collective);
    const auto theirs = connection().compare_set(key, "", mine);
    const auto same = " is at " + here;
    if (theirs.size() >= same.size() &&
        theirs.compare(theirs.size() - same.size(), same.size(), same) == 0)
        return {};
    auto found = mismatch_between(mine, theirs);
    put(found);
    return found;
}

void MismatchWatch::put(const Trouble& trouble) {
    connection().compare_set(prefix_ + "trouble", "", written(trouble));
}

std::optional<Trouble> MismatchWatch::told_by_others() {
    const auto key = prefix_ + "trouble";
    auto& store = connection();
    if (!store.check({key})) return deaths_.look(store, patience);
    return trouble_from_text(store.get(key, patience));
}

Store& MismatchWatch::connection() {
    // The program's own connection may be waiting for a key at this moment, for as long as it
    // likes.
    if (!own_connection_) own_connection_ = store_.reconnect(patience);
    return *own_connection_;
}

}  // namespace ddprun::groups
