// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "worker_sdk/src/groups/collective.hpp"

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

namespace ddprun::groups {

/// Finds out why a collective takes long: did another rank make a different call? Ranks that
/// disagree never exchange a byte (see `tag_of`), they only wait; so the first rank that waits long
/// writes into the store what it is at, and the others compare. Costs nothing while all is well,
/// and a few requests per rank when somebody is slow.
///
/// Any thread; only one looks at a time. A store that is gone is no trouble here: then nothing is
/// found.
class MismatchWatch {
public:
    MismatchWatch(Store store, std::string prefix, int rank);

    /// This rank has been waiting for `collective`. Returns the mismatch if there is one.
    std::optional<Trouble> look(const Collective& collective);

    /// A mismatch that another rank found; asked when a peer is lost, which may be why.
    std::optional<Trouble> told();

private:
    std::optional<Trouble> compare(const Collective& collective);
    std::optional<Trouble> told_by_others(std::chrono::milliseconds at_most);
    Store& connection(std::chrono::milliseconds at_most);

    Store store_;
    std::optional<Store> own_connection_;
    std::string prefix_;
    int rank_;
    std::mutex mutex_;
};

}  // namespace ddprun::groups
