// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The terms of a job, on which all its nodes must agree, and the data of one node. Parts of
/// messages (message.hpp); FORMAT.md has the meaning of each field.
namespace ddprun::control {

/// The number of nodes of a job: `MIN:MAX+SPARES`.
struct NodeRange {
    int min = 1;
    int max = 1;
    int spares = 0;
    /// The size of a round, min and max are multiples of this; none: any size is allowed.
    std::optional<int> unit = std::nullopt;

    /// The largest number of nodes, at most `count`, that may form a round.
    std::size_t in_units(std::size_t count) const {
        return count - count % static_cast<std::size_t>(unit.value_or(1));
    }
    /// True when the job has a range of sizes, or has spares: then a surplus node waits instead of
    /// being refused.
    bool keeps_spares() const { return min != max || spares > 0; }
    bool operator==(const NodeRange&) const = default;
};

/// Ranks of a job, both included.
struct RankRange {
    int first = 0;
    int last = 0;

    bool operator==(const RankRange&) const = default;
};

/// The number of nodes that the last command has set for a job, in place of the one with which its
/// nodes were started.
struct Resized {
    /// How many such commands there have been.
    int count = 1;
    NodeRange nodes = {};

    bool operator==(const Resized&) const = default;
};

enum class LateNodes : std::uint8_t { restart, at_restart, never };

/// Which programs may use the store of a round: every program that can reach it, or only nodes with
/// the secret and their workers.
enum class StoreAccess : std::uint8_t { direct, members };

/// The policy after a worker has failed, if the budget allows another round.
struct RestartPolicy {
    /// The first pause before the next round. It doubles, up to the longest one, while failures
    /// follow each other quickly.
    Duration shortest_delay{};
    Duration longest_delay{};
    /// After a round of this length the budget is full again; zero: never.
    Duration refill_after{};
    /// Exit codes as in a shell (128 + signal) after which the job is not restarted.
    std::vector<int> final_codes{2, 126, 127};
    /// This many failed rounds without a new step end the job; none: there is no such limit.
    std::optional<int> rounds_without_progress;

    bool operator==(const RestartPolicy&) const = default;
};

/// The reaction when no rank of a round makes progress any more.
enum class OnHang : std::uint8_t { report, restart };

/// Whether workers that can keep their processes do so when a round is followed by another.
enum class Recovery : std::uint8_t { automatic, restart };

/// What follows when the host of the rendezvous server is gone: the job ends, or its nodes elect
/// another server.
enum class Failover : std::uint8_t { off, nodes };

/// Time limits and policy on which all members of a job must agree.
struct Settings {
    Duration join_timeout = std::chrono::seconds{600};
    /// How long a job that lost nodes waits for enough others; none: `join_timeout`.
    std::optional<Duration> replacement_timeout;
    Duration last_call_timeout = std::chrono::seconds{30};
    Duration lease = std::chrono::seconds{30};
    /// The time between the first signal and SIGKILL, the same on every node.
    Duration grace = std::chrono::seconds{30};
    LateNodes late_nodes = LateNodes::restart;
    int max_losses = 10;
    /// Places are fixed: each node has an explicit node rank, which is its group rank.
    bool is_static = false;
    /// An older release of ddprun supports `direct` only.
    StoreAccess store_access = StoreAccess::direct;
    /// The time without progress of any rank that counts as a hang; none: hangs are not detected.
    std::optional<Duration> hang_after;
    OnHang on_hang = OnHang::report;
    Failover failover = Failover::off;
    Recovery recovery = Recovery::automatic;
    /// How long a worker may take until it is held; none: `limits::recovery_timeout`.
    std::optional<Duration> recovery_timeout;
    /// How long a node's health check may take before the node is ready again; none: nodes make no
    /// check.
    std::optional<Duration> health_timeout;
    RestartPolicy restart;

    /// How often an agent examines its workers. Requires: hang_after.
    Duration look_interval() const {
        return std::min(limits::longest_look_interval, *hang_after / limits::looks_per_hang_limit);
    }

    Duration time_to_hold() const { return recovery_timeout.value_or(limits::recovery_timeout); }

    bool operator==(const Settings&) const = default;
};

/// One life of one agent. The nonce identifies the node; the other fields are for display.
struct Node {
    Nonce nonce;
    std::string host;
    /// The pid of the keeper, the process that was started on the command line.
    int pid = 0;
    std::uint32_t user = 0;
    /// The switch or rack to which the node is connected, highest level first: "row1/rack7". Empty:
    /// not known.
    std::string topology = {};

    bool operator==(const Node&) const = default;
};

}  // namespace ddprun::control
