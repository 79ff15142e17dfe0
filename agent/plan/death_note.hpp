// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// The keys and texts that an agent writes into a round's store for the workers. The worker SDK has
/// the same names in its own list (worker_sdk/src/store_names.hpp); a unit test compares the two.
namespace store_names {

/// The ranks of a round that died, in the order in which their agents saw it: "5", "5 3". The key
/// exists only if a worker asked for notices: then the SDK creates it with the text `no_deaths`.
/// This is the key on the wire: PyTorch's and ddprun's clients put a slash in front of every key.
inline std::string deaths(const std::string& incarnation, int round, int restart_count) {
    return "/ddprun/" + incarnation + "/" + std::to_string(round) + "/" +
           std::to_string(restart_count) + "/deaths";
}

inline constexpr std::string_view no_deaths = "none";

}  // namespace store_names

/// The dead ranks to report to the other workers, and the key for them.
struct DeathNote {
    Endpoint store;
    /// The key store_names::deaths.
    std::string key;
    std::vector<int> ranks;

    bool operator==(const DeathNote&) const = default;
};

/// The new value for a key with the value `found`: the ranks that it lists, followed by this note's
/// missing ones. None when it lists them all, or is no list of ranks.
std::optional<std::string> with_deaths(const std::string& found, const std::vector<int>& ranks);

}  // namespace ddprun::agent
