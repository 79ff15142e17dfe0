// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// The state of a job as values; server/http_status turns them into JSON.
namespace ddprun::coordinator {

/// A worker that has reported any.
struct ProgressStatus {
    int rank = 0;
    std::optional<std::uint64_t> step;
    /// Empty: none.
    std::string phase;
};

struct NodeStatus {
    std::string nonce;
    std::string host;
    int pid = 0;
    std::string addr;
    std::string role;
    std::string state;
    std::string reason;
    std::optional<int> group_rank;
    /// Why it has this group rank.
    std::string rank_because;
    std::optional<int> first_rank;
    std::optional<int> last_rank;
    std::vector<ProgressStatus> progress;
    double heard_ago_s = 0;
};

/// The longest wait in the store of the current round.
struct StoreWaitStatus {
    std::string key;
    std::uint64_t more_keys = 0;
    double since_s = 0;
    /// "0-6", and what is known of the other ranks; as in the log.
    std::string ranks;
    std::string missing;
};

/// Nodes of this host that have joined since it was drained stand by.
struct DrainedHostStatus {
    std::string host;
    /// Which command, and of which user and process.
    std::string reason;
};

/// What the time of a job has gone into (docs/goodput.md).
struct GoodputStatus {
    control::Goodput totals;
    /// What of it no later report changes: for counters. None while the job recovers: its members
    /// may bring more of what earlier servers had counted.
    std::optional<control::Goodput> decided;
    /// Of now; empty: the job is over.
    std::string phase;
    /// The last that all workers have done; none: they report none.
    std::optional<std::uint64_t> step;
    std::uint64_t reset_count = 0;
};

struct JobStatus {
    std::string run_id;
    /// Of several jobs of this id the last one that was begun.
    bool is_newest = true;
    std::string incarnation;
    /// Of the leadership under which this server has it; 0: it was not elected.
    std::uint64_t epoch = 0;
    std::string state;
    std::string reason;
    int round = -1;
    /// Why there is this round and not still the one before it.
    std::string round_because;
    int restarts_used = 0;
    int max_restarts = 0;
    int world_size = 0;
    std::size_t node_count = 0;
    std::vector<NodeStatus> nodes;
    std::vector<DrainedHostStatus> drained_hosts;
    std::string root_cause;
    /// None: no wait is long.
    std::optional<StoreWaitStatus> store_wait;
    /// Why no rank goes on; empty: some do, or it is not looked for.
    std::string hang;

    // Of all nodes, not only of those above.
    std::map<std::string, std::uint64_t> nodes_by_state;
    std::map<std::string, std::uint64_t> workers_by_state;
    /// Rounds that were followed by another, by what ended them.
    std::map<std::string, std::uint64_t> restarts_by_cause;
    std::uint64_t hang_count = 0;
    GoodputStatus goodput;
    /// "forming", "running", "draining" and "recovering".
    std::map<std::string, double> seconds_by_phase;
};

}  // namespace ddprun::coordinator
