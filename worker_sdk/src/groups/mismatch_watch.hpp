// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/death_watch.hpp"

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::groups {

/// What the ranks of a group tell each other through the store about trouble, and what agents tell
/// them there about deaths.
///
/// Finds out why a collective takes long: did another rank make a different call? Ranks that
/// disagree never exchange a byte (see `tag_of`), they only wait; so the first rank that waits long
/// writes into the store what it is at, and the others compare. Costs nothing while all is well,
/// and a few requests per rank when somebody is slow.
///
/// Any thread; only one looks at a time. A store that is gone is no trouble here: then nothing is
/// found.
class MismatchWatch {
public:
    MismatchWatch(Store store, std::string prefix, int rank, DeathWatch deaths);

    /// This rank has been waiting for `collective`. Returns the mismatch if there is one, or the
    /// death of a rank for whom it waits in vain.
    std::optional<Trouble> look(const Collective& collective);

    /// Asked with the trouble this rank has: the one that another rank told before, or a death that
    /// an agent told, which may be why; else this one, told to the others when it names ranks or is
    /// a Timeout.
    Trouble agreed(Trouble trouble);

    /// What another rank, or an agent, has told by now.
    std::optional<Trouble> told();
    /// Tells the other ranks.
    void tell(const Trouble& trouble);

    /// Those of `ranks` who have not looked while they waited for `collective`: they are not there,
    /// or have not waited long, or do something else meanwhile.
    std::vector<int> unheard(const Collective& collective, const std::vector<int>& ranks);

private:
    std::string waiting_key(int rank) const;
    std::optional<Trouble> compare(const Collective& collective);
    std::optional<Trouble> told_by_others();
    void put(const Trouble& trouble);
    Store& connection();

    Store store_;
    std::optional<Store> own_connection_;
    std::string prefix_;
    int rank_;
    DeathWatch deaths_;
    std::mutex mutex_;
};

}  // namespace ddprun::groups
