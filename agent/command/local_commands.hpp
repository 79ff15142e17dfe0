// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/codec.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::agent::command {

/// The process that gave a command, as reported by the system for its socket; pid 0: in another pid
/// namespace.
struct Sender {
    int pid = 0;
    unsigned user = 0;

    bool operator==(const Sender&) const = default;
};

/// The connections of `ddprunctl` to this node's agent: one command and one reply on each.
///
///   (none)   --Connected-->               reading   until now + limits::command_timeout
///   (none)   --Connected-->               (none)    Reply: another user; Close: too many
///   reading  --a whole command-->         waiting   Perform
///   reading  --no command, too long-->    (none)    Reply
///   reading  --too late-->                (none)    Close
///   waiting  --Answered-->                (none)    Reply
///   waiting  --any byte-->                waiting   ignored
///   waiting  --too late-->                (none)    Reply: the server has not answered, or the
///                                                   worker was not looked at
///   any      --Closed-->                  (none)
class LocalCommands {
public:
    // ---- events ----

    struct Connected {
        int caller;
        Sender sender;
    };
    struct Received {
        int caller;
        std::string bytes;
    };
    struct Closed {
        int caller;
    };
    /// The reply to Perform, either at once or when the server has answered.
    struct Answered {
        int caller;
        control::CommandReply reply;
    };
    struct DeadlinePassed {};
    using Event = std::variant<Connected, Received, Closed, Answered, DeadlinePassed>;

    // ---- effects ----

    struct Perform {
        int caller;
        Sender sender;
        control::Command command;
        bool operator==(const Perform&) const = default;
    };
    /// The connection is closed after the reply.
    struct Reply {
        int caller;
        control::CommandReply reply;
        bool operator==(const Reply&) const = default;
    };
    struct Close {
        int caller;
        bool operator==(const Close&) const = default;
    };
    using Effect = std::variant<Perform, Reply, Close>;

    /// Apart from commands of this user, only root's are performed.
    explicit LocalCommands(unsigned user) : user_(user) {}

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

private:
    using Effects = std::vector<Effect>;
    struct Reading {
        Sender sender;
        Instant until;
        control::CommandDecoder decoder = {};
        std::size_t received_bytes = 0;
    };
    /// Waits for a reply, by the server or by sampling a worker.
    struct Waiting {
        Instant until;
        bool is_for_stack = false;
    };
    using Caller = std::variant<Reading, Waiting>;

    static Instant end_of(const Caller& caller);
    static std::string too_late(const Waiting& waiting);
    void on_connected(const Connected& connected, Instant now, Effects& out);
    void on_received(const Received& received, Instant now, Effects& out);
    void on_deadline(Instant now, Effects& out);
    void refuse(int caller, control::CommandRefused::Why why, std::string reason, Effects& out);

    unsigned user_;
    std::map<int, Caller> callers_;
};

std::string describe(const LocalCommands::Event& event);
std::string describe(const LocalCommands::Effect& effect);

}  // namespace ddprun::agent::command
