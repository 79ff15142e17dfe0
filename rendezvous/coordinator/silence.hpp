// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/suspicion.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::coordinator {

/// Decides when a node of a job counts as lost: its connection ended, its lease is over, or all its
/// neighbours have confirmed the suspicion. A machine owned by `Job`, which passes it each node's
/// events and removes nodes that are lost.
///
///   heard     --3 s without message-->          suspected  Noted; neighbours are asked (Ask) each
///                                                          second, if two or more were in reach
///   suspected --message, or attached-->         heard      Noted when it was the last suspect
///   suspected --every neighbour confirmed,
///               5 s after the last sign-->      lost       Lost
///   any       --lease without message-->        lost       Lost
///   any       --dropped, 0.5 s, not attached--> lost       Lost
///
/// A job of one node has no lease: there only dropped connections count. A lost node stays until it
/// is `Removed`.
class Silence {
public:
    /// A node joined, or came back to a restarted server.
    struct Appeared {
        Nonce nonce;
        /// "node2 (pid 4242)", for log and status.
        std::string name;
    };
    /// A message from the node arrived.
    struct Heard {
        Nonce nonce;
    };
    /// The node has a new connection.
    struct Attached {
        Nonce nonce;
    };
    /// The node's connection ended. A node behind a proxy may still live: then only its lease
    /// counts.
    struct Dropped {
        Nonce nonce;
        bool is_behind_proxy = false;
    };
    struct Removed {
        Nonce nonce;
    };
    /// A place of the round whose member is known. Seats are in the order of group ranks.
    struct Seat {
        Nonce nonce;
        std::string host;
        /// The seats of the nodes that are asked about this one when it is silent.
        std::vector<std::size_t> neighbours;
    };
    /// The members got their places. `is_recovered`: the round continues as before, and so do the
    /// reachable neighbours.
    struct RoundBegan {
        int number = 0;
        std::vector<Seat> seats;
        bool is_recovered = false;
    };
    /// How many of its neighbours this node can reach, as reported in `started`.
    struct Reached {
        Nonce nonce;
        int count = 0;
    };
    /// A node answered an `Ask`.
    struct Answered {
        Nonce witness;
        control::NeighbourHeard heard;
    };
    /// The process did not run for a while, so silence during that time means nothing.
    struct WokenLate {};
    /// The job is over: nodes can still be lost, but neighbours are no longer asked.
    struct Ended {};
    struct DeadlinePassed {};
    using Event = std::variant<
        Appeared,
        Heard,
        Attached,
        Dropped,
        Removed,
        RoundBegan,
        Reached,
        Answered,
        WokenLate,
        Ended,
        DeadlinePassed>;

    struct Lost {
        Nonce nonce;
        /// "its connection ended".
        std::string how;
        bool operator==(const Lost&) const = default;
    };
    struct Ask {
        Nonce witness;
        control::Ask question;
        bool operator==(const Ask&) const = default;
    };
    /// A line for the log.
    struct Noted {
        std::string text;
        bool operator==(const Noted&) const = default;
    };
    /// An answer that matches no question.
    struct Stale {
        bool operator==(const Stale&) const = default;
    };
    using Effect = std::variant<Lost, Ask, Noted, Stale>;

    /// Without a lease nodes send no heartbeats and are never silent.
    explicit Silence(std::optional<Duration> lease) : lease_(lease) {}

    void handle(Event event, Instant now, std::vector<Effect>& out);
    /// At or before the first moment at which a node counts as lost or a question is due.
    std::optional<Instant> next_deadline() const { return look_at_; }

    /// The node is connected and not silent.
    bool is_heard(const Nonce& nonce, Instant now) const;
    /// No message for 3 s.
    bool is_silent(const Nonce& nonce, Instant now) const;
    /// Whether a message of the node has arrived at that moment or later. Without a lease there are
    /// no heartbeats, so it always counts as heard while connected.
    bool is_heard_since(const Nonce& nonce, Instant moment, Instant now) const;
    Instant heard_at(const Nonce& nonce) const;
    std::size_t size() const { return entries_.size(); }
    /// "silent for 4 s, node b heard from it 1 s ago: kept".
    std::string text(const Nonce& nonce, Instant now) const;

private:
    struct Entry {
        std::string name;
        std::uint64_t arrival = 0;
        bool is_connected = true;
        Instant heard_at{};
        /// When the node will be lost because its connection ended.
        std::optional<Instant> lost_at;
        /// Set while the node is silent.
        std::optional<Suspicion> suspicion;
        /// How many of its neighbours can be reached by it in this round.
        int reached = 0;
        std::optional<std::size_t> seat;
    };
    struct TakenSeat {
        Seat seat;
        /// When the node was removed: until then it may have answered probes.
        std::optional<Instant> gone_at;
    };

    void on_round(RoundBegan round);
    void on_removed(const Nonce& nonce, Instant now);
    void on_answered(const Answered& answered, Instant now, std::vector<Effect>& out);
    void on_woken_late(Instant now);
    void on_deadline(Instant now, std::vector<Effect>& out);

    void hear(Entry& entry, Instant now, std::vector<Effect>& out);
    void ask_about(const Nonce& nonce, Entry& entry, Instant now, std::vector<Effect>& out);
    void note_suspects(
        const std::vector<const Entry*>& suspects, Instant now, std::vector<Effect>& out) const;
    std::optional<std::string> how_it_is_lost(const Entry& entry, Instant now) const;
    std::optional<Instant> lost_when_confirmed_at(const Entry& entry, Instant now) const;
    std::optional<Instant> next_look_at(const Entry& entry) const;
    void look_at(std::optional<Instant> moment) { look_at_ = earliest(look_at_, moment); }

    bool is_heard(const Entry& entry, Instant now) const;
    bool is_silent(const Entry& entry, Instant now) const;
    bool has_witnesses(const Entry& entry) const;
    std::vector<Witness> witnesses_of(const Entry& entry, Instant now) const;
    std::string text(const Entry& entry, Instant now) const;
    Entry& entry_of(const Nonce& nonce);
    const Entry& entry_of(const Nonce& nonce) const;

    std::optional<Duration> lease_;
    std::map<Nonce, Entry> entries_;
    /// In order of arrival, so that questions and notes are sent in this order.
    std::map<std::uint64_t, Nonce> arrivals_;
    std::uint64_t next_arrival_ = 0;
    int round_ = -1;
    std::vector<TakenSeat> seats_;
    std::size_t suspect_count_ = 0;
    bool is_over_ = false;
    std::optional<Instant> look_at_;
};

}  // namespace ddprun::coordinator
