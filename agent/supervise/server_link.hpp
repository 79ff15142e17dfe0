// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/backoff.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/connect_error.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/control/versions.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::agent {

/// The node's connection to the rendezvous server: opens it, opens it again, and detects a silent
/// server. Driven by `Agent`, which writes the greeting (join or resume) and decides which events
/// end the node.
///
///   closed   --LinkOpened-->                       open      the Agent is to greet
///   open     --GreetingMade-->                     greeted   Send
///   greeted  --Welcome, Resumed-->                 admitted
///   greeted  --limits::handshake_timeout-->        closed    CloseLink, then as LinkClosed
///   admitted --limits::heartbeat_interval-->       admitted  Send Heartbeat; without an answer to
///                                                            the last three: a second Connect
///   any      --LinkClosed-->                       closed    next attempt; before a Welcome
///                                                            JoinUnanswered
///   any      --LinkOpened (of the attempt)-->      open      CloseLink of the old connection
///   any      --Refused for now-->                  closed    next attempt when the server says
///   any      --Refused, ConnectRefused-->          same      Rejected
///   any      --ConnectRequested-->                 closed    CloseLink, Connect
///   any      --ReconnectRequested-->               closed    CloseLink, Connect after a pause
///   any      --DisconnectRequested-->              closed    CloseLink
///
/// Beside the connection there is at most one attempt, which is pausing or trying. Links are
/// numbers that this machine assigns. An event about a link is ignored unless the link is the
/// current one or that of the attempt. An Outage lasts from the loss of the server until it is
/// heard again.
class ServerLink {
public:
    using ConnectError = control::ConnectError;

    struct Config {
        /// Whether the server expects heartbeats.
        bool has_lease = false;
        /// How long an idle node waits for the server.
        Duration join_timeout{};
        /// The server's endpoint, for messages.
        std::string endpoint;
    };

    // ---- events ----

    /// The agent requests a new membership: connect now.
    struct ConnectRequested {};
    /// Answers to Connect: the server's hello was read, and nothing has been written.
    struct LinkOpened {
        int link;
        std::string socket_addr;
        /// The newest protocol version that both ends support.
        int version = control::first_version;
    };
    struct LinkClosed {
        int link;
        ConnectError error;
        std::string reason;
    };
    /// Connecting can never succeed, e.g. this node must host and the port is taken.
    struct ConnectRefused {
        std::string reason;
    };
    /// A Join or Resume, made when `wants_greeting`.
    struct GreetingMade {
        control::AgentMessage message;
    };
    /// Others than the server vote about the leader, or no longer: without them the job is lost
    /// with its server, as `hosted` in a welcome says.
    struct SuccessionChanged {
        bool can_others_follow;
    };
    /// Workers depend on the connection: attempts come close together.
    struct WorkersStarted {};
    struct WorkersEnded {};
    /// All connections are to be closed; the next one is opened after a pause.
    struct ReconnectRequested {};
    struct DisconnectRequested {};
    /// The node leaves, and its connection is kept only for a result: when it closes, Ended
    /// follows.
    struct ResultAwaited {};
    /// `times_out_at` has passed. Answered by Rejected or ServerGone.
    struct TimedOut {};
    struct DeadlinePassed {};
    using Event = std::variant<
        ConnectRequested,
        LinkOpened,
        LinkClosed,
        ConnectRefused,
        GreetingMade,
        control::Welcome,
        control::Resumed,
        control::Refused,
        control::HeartbeatAck,
        SuccessionChanged,
        WorkersStarted,
        WorkersEnded,
        ReconnectRequested,
        DisconnectRequested,
        ResultAwaited,
        TimedOut,
        DeadlinePassed>;

    // ---- effects ----

    /// One attempt. Answered by LinkOpened, LinkClosed or ConnectRefused.
    struct Connect {
        int link;
        /// This node may host the server: no server has ever welcomed it. After a welcome, a new
        /// server here would have none of the job's state.
        bool may_host;
        /// The time since a server last answered at the endpoint.
        Duration unanswered_for;
        bool operator==(const Connect&) const = default;
    };
    struct Send {
        int link;
        control::AgentMessage message;
        bool operator==(const Send&) const = default;
    };
    /// Flush, then shut down; no further event comes from this link.
    struct CloseLink {
        int link;
        bool operator==(const CloseLink&) const = default;
    };
    /// For the log.
    struct NoteWaiting {
        ConnectError error;
        std::string reason;
        Duration waited;
        /// The length of the whole wait, if it is known: with workers until their fence, otherwise
        /// until the node times out.
        std::optional<Duration> timeout = std::nullopt;
        bool operator==(const NoteWaiting&) const = default;
    };
    struct NoteStandby {
        std::string reason;
        bool operator==(const NoteStandby&) const = default;
    };
    struct NoteServerLost {
        std::string reason;
        bool operator==(const NoteServerLost&) const = default;
    };
    struct NoteServerBack {
        bool operator==(const NoteServerBack&) const = default;
    };
    /// A join was sent and got no answer: the server may have named the node's store to other
    /// nodes.
    struct JoinUnanswered {
        bool operator==(const JoinUnanswered&) const = default;
    };
    /// The connection has closed after ResultAwaited, and no new one is opened.
    struct Ended {
        bool operator==(const Ended&) const = default;
    };
    /// The server, or this node's own system, rejects this node.
    struct Rejected {
        std::string reason;
        /// Set if failed attempts are the cause.
        std::optional<ConnectError> error = std::nullopt;
        bool operator==(const Rejected&) const = default;
    };
    struct ServerGone {
        std::string reason;
        bool operator==(const ServerGone&) const = default;
    };
    /// A message arrived that is not valid now.
    struct FoundStale {
        std::string what;
        bool operator==(const FoundStale&) const = default;
    };
    using Effect = std::variant<
        Connect,
        Send,
        CloseLink,
        NoteWaiting,
        NoteStandby,
        NoteServerLost,
        NoteServerBack,
        JoinUnanswered,
        Ended,
        Rejected,
        ServerGone,
        FoundStale>;

    /// What the server has granted, and the send time of the last message that it answered.
    struct Membership {
        /// `hosted` there: as of the last SuccessionChanged.
        control::Welcome welcome;
        Instant acknowledged_at;

        /// Until this time the server counts this node as a member. Computed from this node's own
        /// messages, and earlier than the end of the lease (docs/fence.md).
        Instant valid_until() const;
    };

    /// `random` is used for pauses and must outlive the machine.
    ServerLink(Config config, Random& random);

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    /// The link is open, and nothing has been sent on it.
    bool wants_greeting() const;
    /// The server has answered the join or resume.
    bool is_admitted() const;
    bool is_current(int link) const { return link_ && link_->id == link; }
    /// Requires: a link is open.
    int current() const;
    /// This node's end of the open connection, numeric with port; empty: there is none.
    std::string socket_addr() const { return link_ ? link_->socket_addr : std::string{}; }
    /// The protocol version of the open connection; without one, the first version.
    int version() const { return link_ ? link_->version : control::first_version; }
    const std::optional<Membership>& membership() const { return membership_; }
    /// Any server has welcomed this node, in this membership or an earlier one.
    bool was_welcomed() const { return was_welcomed_; }
    ConnectError last_error() const { return last_error_.error; }
    /// When a node without workers stops waiting. None: the server is heard.
    std::optional<Instant> times_out_at() const;
    /// `what`, followed by the error of the last attempt.
    std::string with_last_error(std::string what) const;

private:
    struct Fresh {};
    struct Greeted {
        Instant at;
    };
    struct Beat {
        std::uint64_t seq;
        Instant at;
    };
    struct Admitted {
        std::optional<Instant> heartbeat_at;
        std::deque<Beat> unanswered = {};
    };
    struct Link {
        int id;
        std::string socket_addr;
        int version;
        std::variant<Fresh, Greeted, Admitted> stage = Fresh{};
    };

    struct NoAttempt {};
    struct Pausing {
        Instant until;
    };
    struct Trying {
        int link;
    };

    /// A time in which the server is not heard.
    struct Outage {
        Instant since;
        std::optional<Instant> note_at = std::nullopt;
        /// NoteServerLost was emitted.
        bool is_noted = false;
        /// When a server last answered that this node must wait.
        std::optional<Instant> answered_at = std::nullopt;
        /// Why the server makes this node wait, if no other answer has come since.
        std::optional<std::string> refusal = std::nullopt;
        /// The last one of which the log has a line.
        std::optional<std::string> noted_refusal = std::nullopt;
        /// Since then the server and this node have not agreed about the secret.
        std::optional<Instant> distrusted_since = std::nullopt;
        /// Since then no process has listened at the endpoint.
        std::optional<Instant> unserved_since = std::nullopt;
    };
    struct LastError {
        ConnectError error = ConnectError::no_answer;
        std::string reason;
    };

    void connect(Instant now, std::vector<Effect>& out);
    void disconnect(std::vector<Effect>& out);
    void on_opened(LinkOpened opened, std::vector<Effect>& out);
    void on_closed(LinkClosed closed, Instant now, std::vector<Effect>& out);
    bool is_distrusted(Instant now);
    void on_attempt_failed(LinkClosed closed, Instant now, std::vector<Effect>& out);
    void on_welcome(control::Welcome welcome, Instant now, std::vector<Effect>& out);
    void on_resumed(Instant now, std::vector<Effect>& out);
    void on_refused(control::Refused refused, Instant now, std::vector<Effect>& out);
    void on_heartbeat_ack(std::uint64_t seq, std::vector<Effect>& out);
    void admit(Instant now, std::vector<Effect>& out);
    void heartbeat(Instant now, std::vector<Effect>& out);
    void on_timed_out(Instant now, std::vector<Effect>& out) const;
    void on_deadline(Instant now, std::vector<Effect>& out);
    Outage& begin_outage(Instant since);
    void note_later(Instant now);
    Duration pause(Instant now);
    bool is_trying(int link) const;
    const Greeted* greeted() const;
    std::optional<Instant> admission_ends_at() const;
    std::optional<Instant> heartbeat_at() const;
    void check() const;

    Config config_;
    Random& random_;
    std::optional<Link> link_;
    std::variant<NoAttempt, Pausing, Trying> attempt_;
    int last_link_ = 0;
    std::uint64_t last_seq_ = 0;
    Backoff backoff_;
    std::optional<Membership> membership_;
    bool was_welcomed_ = false;
    std::optional<Outage> outage_;
    LastError last_error_;
    bool has_workers_ = false;
    bool awaits_result_ = false;
};

std::string describe(const ServerLink::Event& event);
std::string describe(const ServerLink::Effect& effect);
std::string_view describe(ServerLink::ConnectError error);

/// A length of time for messages, without a fraction: "24 s".
std::string whole_seconds(Duration length);

}  // namespace ddprun::agent
