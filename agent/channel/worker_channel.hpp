// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/channel/line.hpp"
#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::agent::channel {

/// Which process gets which worker's page: each connection to the node's local listener, and the
/// tokens of the current round.
///
///   (none)    --Connected-->               greeting   for limits::channel_greeting_timeout
///   (none)    --Connected-->               (none)     Close: another user, or too many
///   greeting  --a token of the round-->    attached   GivePage
///   greeting  --another line, too late-->  (none)     Refuse, or Close if it is no greeting
///   attached  --recoverable-->             holdable   NoteRecoverable(true), unless another is
///   holdable  --holding-->                 holdable   NoteHeld
///   attached  --another line-->            (none)     Close
///   any       --Closed-->                  (none)     of a holdable one: NoteRecoverable(false)
///   any       --RoundBegan, RoundEnded-->  (none)     Close, unless its worker is kept
///
/// A worker's page belongs to the first process that shows the token, as long as it has a
/// connection. Each further connection of that process gets the same page; another process that
/// comes after it gets a new one.
class WorkerChannel {
public:
    /// As reported by the system; pid 0: in another pid namespace.
    struct Peer {
        int pid = 0;
        unsigned user = 0;
    };

    // ---- events ----

    /// By local rank. The token of a kept worker stays, and so do its connections.
    struct RoundBegan {
        std::vector<std::string> tokens;
        std::vector<int> kept = {};
    };
    /// The worker gets this line, and the others that follow, on its holdable connection.
    struct LineWanted {
        int local_rank;
        std::string line;
    };
    struct RoundEnded {};
    struct Connected {
        int caller;
        Peer peer;
    };
    struct Received {
        int caller;
        std::string bytes;
        /// Descriptors were sent with the bytes; the system has dropped them.
        bool has_descriptors = false;
    };
    struct Closed {
        int caller;
    };
    struct DeadlinePassed {};
    using Event = std::
        variant<RoundBegan, LineWanted, RoundEnded, Connected, Received, Closed, DeadlinePassed>;

    // ---- effects ----

    struct GivePage {
        int caller;
        int local_rank;
        /// Another process had the page before in this round.
        bool is_new_owner = false;
        bool operator==(const GivePage&) const = default;
    };
    /// The connection is closed after the refusal.
    struct Refuse {
        int caller;
        std::string reason;
        bool operator==(const Refuse&) const = default;
    };
    struct Close {
        int caller;
        bool operator==(const Close&) const = default;
    };
    struct SendLine {
        int caller;
        std::string line;
        bool operator==(const SendLine&) const = default;
    };
    struct NoteRecoverable {
        int local_rank;
        bool is_recoverable;
        bool operator==(const NoteRecoverable&) const = default;
    };
    struct NoteHeld {
        int local_rank;
        Holding holding;
        bool operator==(const NoteHeld&) const = default;
    };
    /// Logged for the first refused connection in a round only, since there may be thousands.
    struct NoteRefused {
        std::string reason;
        bool operator==(const NoteRefused&) const = default;
    };
    using Effect =
        std::variant<GivePage, Refuse, Close, SendLine, NoteRecoverable, NoteHeld, NoteRefused>;

    /// Apart from processes of this user, only root's may attach.
    explicit WorkerChannel(unsigned user) : user_(user) {}

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

private:
    using Effects = std::vector<Effect>;
    struct AwaitingGreeting {
        Peer peer;
        Instant until;
        LineReader lines = {};
    };
    struct Attached {
        int local_rank;
        int pid;
        LineReader lines = {};
        bool is_holdable = false;
    };
    using Caller = std::variant<AwaitingGreeting, Attached>;

    void begin(RoundBegan began, Effects& out);
    void on_connected(const Connected& connected, Instant now, Effects& out);
    void on_received(const Received& received, Effects& out);
    void on_greeting(int caller, const Peer& peer, const Greeting& greeting, Effects& out);
    void on_line(int caller, Attached& attached, std::string_view line, Effects& out);
    void on_deadline(Instant now, Effects& out);
    void end_caller(int caller, Effects& out);
    std::optional<int> holdable_of(int local_rank) const;
    void refuse(int caller, std::string reason, Effects& out);
    void close(int caller, const std::string& reason, Effects& out);
    void note(const std::string& reason, Effects& out);
    std::optional<int> local_rank_of(const std::string& token) const;
    std::size_t unfinished_count() const;

    unsigned user_;
    std::vector<std::string> tokens_;
    std::map<int, Caller> callers_;
    /// By local rank: the last process that has or had its page in this round.
    std::map<int, int> owner_of_;
    bool has_noted_ = false;
};

std::string describe(const WorkerChannel::Event& event);
std::string describe(const WorkerChannel::Effect& effect);

}  // namespace ddprun::agent::channel
