// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/timeline.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// The state of a job as values; server/http_status turns them into JSON.
namespace ddprun::coordinator {

/// The progress of one worker that has reported any.
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

/// The longest wait in the current round's store.
struct StoreWaitStatus {
    std::string key;
    std::uint64_t more_keys = 0;
    double since_s = 0;
    /// The waiting ranks ("0-6"), and the reports about the other ranks, as in the log.
    std::string ranks;
    std::string missing;
};

/// Nodes of this host that join after it was drained stand by.
struct DrainedHostStatus {
    std::string host;
    /// The command, with its user and process.
    std::string reason;
};

/// How the time of a job was spent (docs/goodput.md).
struct GoodputStatus {
    control::Goodput totals;
    /// The part that no later report changes, for counters. None while the job recovers, since its
    /// members may report more of what earlier servers had counted.
    std::optional<control::Goodput> decided;
    /// The current phase; empty: the job is over.
    std::string phase;
    /// The last step that all workers have done; none: they report none.
    std::optional<std::uint64_t> step;
    std::uint64_t reset_count = 0;
};

/// The rounds from the requested one on.
struct TimelineStatus {
    Timeline::Older older;
    std::vector<Timeline::Round> rounds;
};

struct JobStatus {
    std::string run_id;
    /// Empty: the server has no tenants.
    std::string tenant = {};
    /// This is the newest of the jobs of its tenant with this id.
    bool is_newest = true;
    std::string incarnation;
    /// The epoch of the leadership under which this server has the job; 0: it was not elected.
    std::uint64_t epoch = 0;
    std::string state;
    std::string reason;
    int round = -1;
    /// Why this round replaced the one before.
    std::string round_because;
    int restarts_used = 0;
    int max_restarts = 0;
    int world_size = 0;
    std::size_t node_count = 0;
    /// "4:6": as started, or as a command has set it.
    std::string nnodes;
    std::vector<NodeStatus> nodes;
    std::vector<DrainedHostStatus> drained_hosts;
    std::string root_cause;
    /// None: no wait is long.
    std::optional<StoreWaitStatus> store_wait;
    /// Why no rank makes progress; empty: some do, or hangs are not detected.
    std::string hang;

    // Counts all nodes, not only those listed above.
    std::map<std::string, std::uint64_t> nodes_by_state;
    std::map<std::string, std::uint64_t> workers_by_state;
    /// By cause: the number of rounds that ended and were followed by another.
    std::map<std::string, std::uint64_t> restarts_by_cause;
    std::uint64_t hang_count = 0;
    GoodputStatus goodput;
    /// None: it was not requested.
    std::optional<TimelineStatus> timeline;
    /// "forming", "running", "draining" and "recovering".
    std::map<std::string, double> seconds_by_phase;
};

}  // namespace ddprun::coordinator
