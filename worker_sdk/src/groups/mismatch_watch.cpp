// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/mismatch_watch.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/store/shared.hpp"

#include <utility>

namespace ddprun::groups {

namespace {

constexpr std::chrono::milliseconds patience{2000};
/// When a peer is already lost, its story must not keep us.
constexpr std::chrono::milliseconds patience_after_a_loss{200};

}  // namespace

MismatchWatch::MismatchWatch(Store store, std::string prefix, int rank)
    : store_(std::move(store)),
      prefix_(std::move(prefix)),
      rank_(rank) {}

std::optional<Trouble> MismatchWatch::look(const Collective& collective) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return {};
    try {
        if (auto found = told_by_others(patience)) return found;
        return compare(collective);
    } catch (const Error&) {
        own_connection_.reset();
        return {};
    }
}

std::optional<Trouble> MismatchWatch::told() {
    const std::lock_guard lock(mutex_);
    try {
        return told_by_others(patience_after_a_loss);
    } catch (const Error&) {
        own_connection_.reset();
        return {};
    }
}

std::optional<Trouble> MismatchWatch::compare(const Collective& collective) {
    const auto here = describe(collective);
    const auto mine = "rank " + std::to_string(rank_) + " is at " + here;
    const auto key = prefix_ + "at/" + std::to_string(collective.sequence);
    const auto theirs = connection(patience).compare_set(key, "", mine);
    const auto same = " is at " + here;
    if (theirs.size() >= same.size() &&
        theirs.compare(theirs.size() - same.size(), same.size(), same) == 0)
        return {};
    auto text = mine + ", but " + theirs;
    connection(patience).set(prefix_ + "mismatch", text);
    return Trouble{Trouble::Kind::mismatch, std::move(text)};
}

std::optional<Trouble> MismatchWatch::told_by_others(std::chrono::milliseconds at_most) {
    const auto key = prefix_ + "mismatch";
    auto& store = connection(at_most);
    if (!store.check({key})) return {};
    return Trouble{Trouble::Kind::mismatch, store.get(key, at_most)};
}

Store& MismatchWatch::connection(std::chrono::milliseconds at_most) {
    // The program's own connection may be waiting for a key at this moment, for as long as it
    // likes.
    if (!own_connection_) own_connection_ = store_.reconnect(at_most);
    return *own_connection_;
}

}  // namespace ddprun::groups
