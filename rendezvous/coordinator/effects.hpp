// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// The coordinator's and its jobs' view of a connection, and their effects.
namespace ddprun::coordinator {

/// A connection that spoke the preamble. Addresses are numeric, IPv4-mapped unwrapped.
struct Connected {
    ConnectionId connection;
    std::string peer_addr;    ///< what the server sees: "10.0.0.2"
    std::string peer_socket;  ///< the same with port: "10.0.0.2:51234"
    std::string local_addr;   ///< the server's own end of it
    /// What one caller can have all addresses of: "10.0.0.2", "2001:db8:0:1::/64".
    std::string peer_network = {};
    /// Unpredictable: becomes the token of the node that joins here. Without: it gets none.
    std::optional<Nonce> token = std::nullopt;
};

struct Send {
    ConnectionId connection;
    control::ServerMessage message;
    bool operator==(const Send&) const = default;
};

/// Flush what was sent, then close.
struct Close {
    ConnectionId connection;
    std::string reason;
    bool operator==(const Close&) const = default;
};

/// A job's state or its reason changed: for the log and metrics; nothing else depends on it.
struct Changed {
    std::string run_id;
    std::string state;
    std::string reason;
    /// The state, not only the reason.
    bool is_new_state = false;
    bool operator==(const Changed&) const = default;
};

/// A member got its group rank in a round, and why this one: for the debug log.
struct Ranked {
    std::string run_id;
    int round = 0;
    int group_rank = 0;
    std::string node;
    std::string reason;
    bool operator==(const Ranked&) const = default;
};

/// Ranks wait long for a key of the round's store, and which do not: for the log.
struct Waiting {
    std::string run_id;
    int round = 0;
    std::string key;
    /// "0-6"
    std::string ranks;
    Duration age{};
    /// "rank 7 (host-b) is not connected"; empty: every rank waits.
    std::string missing;
    bool operator==(const Waiting&) const = default;
};

/// The round makes no progress, and why: for the log.
struct Hung {
    std::string run_id;
    int round = 0;
    std::string reason;
    std::vector<std::string> rows;
    bool operator==(const Hung&) const = default;
};

/// This server has forgotten its jobs, and closes every connection: it may not act for them.
struct SteppedDown {
    std::string reason;
    /// Of the leadership that is over.
    std::uint64_t epoch = 0;
    /// The newest epoch that a node has named.
    std::uint64_t known_epoch = 0;
    /// No job is left: none runs, and no node may come back to one.
    bool is_idle = false;
    bool operator==(const SteppedDown&) const = default;
};

/// A job has ended under this elected server: the election keeps that for the leaders after it, and
/// answers with `Coordinator::Recorded`. Until then no node gets the result.
struct Record {
    std::uint64_t epoch = 0;
    std::uint64_t number = 0;
    /// Of this id: the earlier ends too.
    std::string ends;
    bool operator==(const Record&) const = default;
};

using Effect = std::variant<Send, Close, Changed, Ranked, Waiting, Hung, Record, SteppedDown>;

}  // namespace ddprun::coordinator
