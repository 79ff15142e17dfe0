// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// What an agent writes into a round's store for the workers, spelled once. The worker SDK has the
/// same names in a list of its own (worker_sdk/src/store_names.hpp); a unit test compares the two.
namespace store_names {

/// The ranks of a round that died, in the order in which their agents saw it: "5", "5 3". It is
/// there only where a worker asked for notices: the SDK makes it, with the text `no_deaths`. As
/// on the wire: PyTorch's clients, and ours, put a slash in front of every key.
inline std::string deaths(const std::string& incarnation, int round, int restart_count) {
    return "/ddprun/" + incarnation + "/" + std::to_string(round) + "/" +
           std::to_string(restart_count) + "/deaths";
}

inline constexpr std::string_view no_deaths = "none";

}  // namespace store_names

/// Ranks that died, for the other workers, and where to write them.
struct DeathNote {
    Endpoint store;
    /// store_names::deaths.
    std::string key;
    std::vector<int> ranks;

    bool operator==(const DeathNote&) const = default;
};

/// What to write in place of the present text: the ranks it names, then those of ours that it does
/// not. Nothing when it has them all, or is no list that could grow.
std::optional<std::string> with_deaths(const std::string& found, const std::vector<int>& ranks);

}  // namespace ddprun::agent
