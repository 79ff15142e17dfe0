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

/// The data of a connection that the coordinator and its jobs use, and their effects.
namespace ddprun::coordinator {

/// A connection whose preamble was read. Addresses are numeric, IPv4-mapped unwrapped.
struct Connected {
    ConnectionId connection;
    std::string peer_addr;    ///< the peer's address at the server: "10.0.0.2"
    std::string peer_socket;  ///< the same with port: "10.0.0.2:51234"
    std::string local_addr;   ///< the server's end of the connection
    /// The smallest network whose addresses may all belong to one caller: "10.0.0.2",
    /// "2001:db8:0:1::/64".
    std::string peer_network = {};
    /// An unpredictable value, which becomes the token of a node that joins here; none: the node
    /// gets no token.
    std::optional<Nonce> token = std::nullopt;
    /// The tenant whose secret the caller has proved; empty: the server has no tenants.
    std::string tenant = {};
    /// The caller has proved a secret of the server. Only then are its commands performed.
    bool has_proved_secret = false;
};

struct Send {
    ConnectionId connection;
    control::ServerMessage message;
    bool operator==(const Send&) const = default;
};

/// Sends the queued messages, then closes the connection.
struct Close {
    ConnectionId connection;
    std::string reason;
    bool operator==(const Close&) const = default;
};

/// A job's state or its reason changed: used only for the log and metrics.
struct Changed {
    std::string run_id;
    std::string state;
    std::string reason;
    /// The state changed, not only the reason.
    bool is_new_state = false;
    bool operator==(const Changed&) const = default;
};

/// A member's group rank in a round, with the reason; for the debug log.
struct Ranked {
    std::string run_id;
    int round = 0;
    int group_rank = 0;
    std::string node;
    std::string reason;
    bool operator==(const Ranked&) const = default;
};

/// Ranks that have waited long for a key of the round's store, and the ranks that do not wait; for
/// the log.
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

/// The round makes no progress, with the reason; for the log.
struct Hung {
    std::string run_id;
    int round = 0;
    std::string reason;
    std::vector<std::string> rows;
    bool operator==(const Hung&) const = default;
};

/// This server has forgotten its jobs and closes every connection, since it may no longer act for
/// them.
struct SteppedDown {
    std::string reason;
    /// The epoch of the ended leadership.
    std::uint64_t epoch = 0;
    /// The newest epoch that a node has stated in its greeting.
    std::uint64_t known_epoch = 0;
    /// No job is left: none runs, and no node may come back for a result.
    bool is_idle = false;
    /// The voters of the leader that this server follows now; none: it follows none yet.
    std::optional<control::Voters> claimed = std::nullopt;
    bool operator==(const SteppedDown&) const = default;
};

/// A job has ended under this elected server. The election stores the end for later leaders and
/// answers with `Coordinator::Recorded`. Until then no node gets the result.
struct Record {
    std::uint64_t epoch = 0;
    std::uint64_t number = 0;
    /// The ends of this run id, including earlier ones.
    std::string ends;
    bool operator==(const Record&) const = default;
};

/// The election must change which nodes vote about the leader of this job, and answers with
/// `Coordinator::VotersChanged` when its record has them. Of one job there is one such request at a
/// time, until then or until this server leads no more.
struct ChangeVoters {
    std::string run_id;
    std::uint64_t epoch = 0;
    std::vector<control::VoterPlace> voters;
    bool operator==(const ChangeVoters&) const = default;
};

/// A command of another machine was answered; for the log.
struct Commanded {
    std::string run_id;
    /// "stop job=llama7b"
    std::string command;
    /// The sender.
    std::string by;
    control::JobCommandAnswer::Outcome outcome{};
    std::string text;
    bool operator==(const Commanded&) const = default;
};

using Effect = std::variant<
    Send,
    Close,
    Changed,
    Ranked,
    Waiting,
    Hung,
    Record,
    ChangeVoters,
    Commanded,
    SteppedDown>;

}  // namespace ddprun::coordinator
