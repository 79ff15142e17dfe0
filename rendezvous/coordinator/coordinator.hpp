// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/status.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::coordinator {

/// Decides for all jobs of one server who is in which round, when a round is over, and how a job
/// ends (the rule table of architecture section 6). A map of `Job` machines by run id; this class
/// knows which connection speaks for which node of which job.
///
/// Driven by server/control_server (real sockets) and tests/sim (made-up links). Connections are
/// names; a message for one that is gone is dropped by the shell.
class Coordinator {
public:
    /// What the surrounding program is.
    struct Options {
        /// Inside a `ddprun`: serves this run id only, and is told to agents as `hosted`.
        std::optional<std::string> hosted_run_id;
        /// Named in refusals and /status.
        std::string server_name;
    };

    /// A connection that spoke the preamble. Addresses are numeric, IPv4-mapped unwrapped.
    struct Connected {
        ConnectionId connection;
        std::string peer_addr;    ///< what the server sees: "10.0.0.2"
        std::string peer_socket;  ///< the same with port: "10.0.0.2:51234"
        std::string local_addr;   ///< the server's own end of it
    };
    struct Received {
        ConnectionId connection;
        control::AgentMessage message;
    };
    /// End of file, reset, or closed by us.
    struct Disconnected {
        ConnectionId connection;
    };
    /// The hosting `ddprun` was told to stop: every job ends for everybody with this signal.
    struct Interrupted {
        int signal;
        std::string reason;
    };
    struct DeadlinePassed {};
    using Event = std::variant<Connected, Received, Disconnected, Interrupted, DeadlinePassed>;

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
        bool operator==(const Changed&) const = default;
    };
    using Effect = std::variant<Send, Close, Changed>;

    Coordinator(Options options, Random& random);
    ~Coordinator();
    Coordinator(Coordinator&&) noexcept;

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    /// No job is running and nobody is connected any more: a hosting `ddprun` may exit.
    bool is_idle() const;
    /// For /status: every job, at most `limits::max_status_nodes` nodes of each from `first_node`.
    std::vector<JobStatus> status(Instant now, std::size_t first_node = 0) const;
};

std::string describe(const Coordinator::Event& event);
std::string describe(const Coordinator::Effect& effect);

}  // namespace ddprun::coordinator
