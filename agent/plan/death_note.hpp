// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

/// Ranks that died, for the workers of other nodes, and where to write them.
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
