// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

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

/// The job ends on every node, as by one SIGTERM to each `ddprun`.
struct StopJob {
    /// Between SIGTERM and SIGKILL, instead of the job's own; never longer than that.
    std::optional<Duration> grace = std::nullopt;

    bool operator==(const StopJob&) const = default;
};

/// To the leaders of this node's workers.
struct SignalWorkers {
    int signal = 0;
    /// Of the job; without it every worker of the node.
    std::optional<int> rank = std::nullopt;

    bool operator==(const SignalWorkers&) const = default;
};

/// What a worker of this node does, and its Python stacks: the agent looks at it twice.
struct ShowStack {
    /// Of the job.
    int rank = 0;

    bool operator==(const ShowStack&) const = default;
};

/// The agent passes it on to the server, whose answer is the reply: as `Drain`.
struct DrainNodes {
    std::vector<std::string> nodes = {};
    bool is_forced = false;

    bool operator==(const DrainNodes&) const = default;
};

/// Likewise, as `Undrain`.
struct UndrainNodes {
    std::vector<std::string> nodes = {};

    bool operator==(const UndrainNodes&) const = default;
};

using Command = std::variant<ShowNode, StopJob, SignalWorkers, ShowStack, DrainNodes, UndrainNodes>;

// ---- agent to ddprunctl -------------------------------------------------------------------------

/// What an agent knows of its job and of its own part in it.
struct NodeView {
    std::string run_id = "none";
    /// Empty before a server has welcomed the node.
    std::string incarnation = {};
    /// Of the node's part: joining, starting, running, succeeded, stopping.
    std::string state = {};
    /// What it waits for, or why it stops; may be empty.
    std::string reason = {};
    std::string host = {};
    /// The keeper's, as in `Node`.
    int pid = 0;
    /// The rendezvous server, as this node reaches it; empty: it has reached none yet.
    std::string endpoint = {};
    /// With it that server shows its pages; empty: it needs none, or there is no server yet.
    std::string page_token = {};
    /// The server has this node: what it sends reaches the others.
    bool is_connected = false;
    std::string program = {};
    NodeRange nodes = {};
    int worker_count = 1;
    /// Of the current round; without one the node has none.
    std::optional<Assignment> assignment = std::nullopt;
    int max_restarts = 0;
    /// In this state, and since the start of `ddprun`.
    Duration since{};
    Duration age{};

    bool operator==(const NodeView&) const = default;
};

/// To `ShowStack`. All text is printable; where nothing is known it is empty.
struct RankStack {
    int rank = 0;
    int pid = 0;
    /// "blocked", "waits for other ranks"
    std::string activity = {};
    /// "read_batch (loader.py:112)"
    std::string site = {};
    /// What the kernel shows of the main thread.
    std::string detail = {};
    /// All Python threads, a line for each frame; or why there are none.
    std::string stacks = {};

    bool operator==(const RankStack&) const = default;
};

struct CommandDone {
    std::string text = {};

    bool operator==(const CommandDone&) const = default;
};

struct CommandRefused {
    enum class Why : std::uint8_t {
        not_possible,  ///< as the job is now
        not_allowed,   ///< to this caller
        not_understood,
    };
    Why why = Why::not_possible;
    std::string reason = {};

    bool operator==(const CommandRefused&) const = default;
};

using CommandReply = std::variant<NodeView, RankStack, CommandDone, CommandRefused>;

/// "stop_job grace=5 s"
std::string describe(const Command& command);
std::string describe(const CommandReply& reply);
/// Empty for a value that is no enumerator.
std::string_view name_of(CommandRefused::Why why);
/// The `type` of a message on the wire.
std::string_view type_of(const Command& command);
std::string_view type_of(const CommandReply& reply);

}  // namespace ddprun::control
