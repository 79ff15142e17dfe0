// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/control/worker_order.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// The messages between `ddprunctl` and an agent of its machine, as values: frames as between
/// agents and the server, one command and one reply on each connection. The meaning of each field
/// is in FORMAT.md.
namespace ddprun::control {

// ---- ddprunctl to agent -------------------------------------------------------------------------

struct ShowNode {
    bool operator==(const ShowNode&) const = default;
};

/// The job ends on every node, as after one SIGTERM to each `ddprun`.
struct StopJob {
    /// The time between SIGTERM and SIGKILL. Shortens the job's own grace, and never extends it.
    std::optional<Duration> grace = std::nullopt;

    bool operator==(const StopJob&) const = default;
};

/// Sends a signal to the leaders of this node's workers.
struct SignalWorkers {
    int signal = 0;
    /// A rank of the job; none: every worker of the node.
    std::optional<int> rank = std::nullopt;
    /// With `rank`: those of the ranks from there to this one that the node has.
    std::optional<int> last_rank = std::nullopt;

    std::optional<RankRange> ranks() const {
        if (!rank) return std::nullopt;
        return RankRange{*rank, last_rank.value_or(*rank)};
    }
    bool operator==(const SignalWorkers&) const = default;
};

/// Requests what a worker of this node does, with its Python stacks. The agent samples the worker
/// twice.
struct ShowStack {
    /// A rank of the job.
    int rank = 0;

    bool operator==(const ShowStack&) const = default;
};

/// The agent forwards it to the server as `Drain`, and the server's answer is the reply.
struct DrainNodes {
    std::vector<std::string> nodes = {};
    bool is_forced = false;

    bool operator==(const DrainNodes&) const = default;
};

/// Forwarded in the same way, as `Undrain`.
struct UndrainNodes {
    std::vector<std::string> nodes = {};

    bool operator==(const UndrainNodes&) const = default;
};

/// Forwarded in the same way, as `Resize`.
struct ResizeJob {
    /// Without a unit.
    NodeRange nodes = {};

    bool operator==(const ResizeJob&) const = default;
};

using Command =
    std::variant<ShowNode, StopJob, SignalWorkers, ShowStack, DrainNodes, UndrainNodes, ResizeJob>;

// ---- agent to ddprunctl -------------------------------------------------------------------------

/// An agent's data about its job and its own part in the job.
struct NodeView {
    std::string run_id = "none";
    /// Empty until a server has sent the node a `Welcome`.
    std::string incarnation = {};
    /// The state of the node: joining, starting, running, succeeded, stopping.
    std::string state = {};
    /// What the node waits for, or why it stops; may be empty.
    std::string reason = {};
    std::string host = {};
    /// The pid of the keeper, as in `Node`.
    int pid = 0;
    /// The address at which this node reaches the rendezvous server; empty until it has reached
    /// one.
    std::string endpoint = {};
    /// The token for the server's pages; empty when they need none, or when there is no server yet.
    std::string page_token = {};
    /// The node is connected to the server as a member, so its messages reach the other nodes.
    bool is_connected = false;
    std::string program = {};
    NodeRange nodes = {};
    int worker_count = 1;
    /// Its place in the current round; none when the node has no place.
    std::optional<Assignment> assignment = std::nullopt;
    int max_restarts = 0;
    /// The time in this state, and the time since the start of `ddprun`.
    Duration since{};
    Duration age{};

    bool operator==(const NodeView&) const = default;
};

struct CommandDone {
    std::string text = {};

    bool operator==(const CommandDone&) const = default;
};

struct CommandRefused {
    enum class Why : std::uint8_t {
        not_possible,  ///< in the job's present state
        not_allowed,   ///< for this caller
        not_understood,
    };
    Why why = Why::not_possible;
    std::string reason = {};

    bool operator==(const CommandRefused&) const = default;
};

/// `RankStack` is the answer to `ShowStack`.
using CommandReply = std::variant<NodeView, RankStack, CommandDone, CommandRefused>;

/// A line such as "stop_job grace=5 s".
std::string describe(const Command& command);
std::string describe(const CommandReply& reply);
/// Empty for a value that is no enumerator.
std::string_view name_of(CommandRefused::Why why);
/// The `type` of a message on the wire.
std::string_view type_of(const Command& command);
std::string_view type_of(const CommandReply& reply);

}  // namespace ddprun::control
