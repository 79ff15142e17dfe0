// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <string>
#include <vector>

/// Determines which ranks are in a wait in the round's store, and which are missing, as far as
/// nodes have reported that. Pure.
namespace ddprun::coordinator {

/// The ranks of one node, and its report of their connections to the store.
struct NodeRanks {
    std::string host;
    int rank_base = 0;
    int nproc = 1;
    /// Null: the node has not reported.
    const control::StoreClients* clients = nullptr;
};

struct RanksOfHost {
    std::string host;
    std::vector<int> ranks;

    bool operator==(const RanksOfHost&) const = default;
};

/// Every rank of the round is in exactly one of the lists. Each list is in ascending order.
struct WaitingRanks {
    std::vector<int> waiting;
    /// Waiting clients that no node has reported as its ranks.
    std::uint64_t unknown_clients = 0;
    /// Ranks whose workers run and, by their node's report, have no connection to the store.
    std::vector<RanksOfHost> unconnected;
    std::vector<RanksOfHost> ended;
    std::vector<RanksOfHost> connected;
    /// Ranks that their node did not report.
    std::vector<RanksOfHost> unknown;

    bool operator==(const WaitingRanks&) const = default;
};

/// `nodes` in the order of their ranks.
WaitingRanks find_ranks(const control::StoreWait& wait, const std::vector<NodeRanks>& nodes);

/// "0-6,8"; not all if many.
std::string ranges_text(const std::vector<int>& ranks);
/// "0-6,8"; "0-6 and 2 other clients".
std::string waiting_text(const WaitingRanks& ranks);
/// "rank 7 (host-b) is not connected"; empty when every rank waits.
std::string missing_text(const WaitingRanks& ranks);

}  // namespace ddprun::coordinator
