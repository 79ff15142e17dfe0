// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The order in which members of a round get their group ranks. Pure: the same candidates give the
/// same order, regardless of how they are listed.
namespace ddprun::coordinator {

struct Candidate {
    const control::Join& join;
    /// Its group rank in the previous round, if it was there.
    std::optional<int> previous_rank;
    /// It runs on the machine that the endpoint names.
    bool is_endpoint_host = false;
    /// Order of joining; unique.
    std::uint64_t arrival = 0;
};

struct Placement {
    std::size_t candidate = 0;
    /// Why the member has this rank: "node rank 3 was asked for".
    std::string reason;

    bool operator==(const Placement&) const = default;
};

struct RankOrder {
    std::vector<Placement> places;
    /// A warning about a node rank that several nodes requested; usually empty.
    std::string warning;
};

/// The order is: explicit node ranks, then members of the previous round in their order without
/// gaps, then new nodes (the endpoint's host, then by the natural order of host names, then by
/// arrival). Nodes of one switch without an explicit rank are placed together, at the position of
/// the first of them. So are the switches below a common switch.
RankOrder rank_order(const std::vector<Candidate>& candidates);

/// Whether host name `a` comes before `b`: digits count as numbers (node2 before node10).
bool comes_before_naturally(std::string_view a, std::string_view b);

}  // namespace ddprun::coordinator
