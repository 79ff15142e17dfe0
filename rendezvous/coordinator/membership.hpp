// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/coordinator/effects.hpp"
#include "rendezvous/coordinator/reach.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::coordinator {

/// The node's host was lost or left too often: the node gets into a round when the hold ends, or
/// earlier if the round otherwise has too few nodes.
struct Hold {
    Instant ends_at{};
    Duration length{};
};

/// The node is about to be taken away; before that, all ranks must save.
struct GivenNotice {
    std::string reason;
    int signal = 0;
    /// Until when the server waits for the save.
    Instant ends_at{};
    std::optional<std::uint64_t> asked;
    bool ends_job = false;
    /// The round whose step is in `asked`.
    std::optional<int> round;
};

/// One node of a job. The time of its last message is in silence.hpp.
struct Member {
    enum class State : std::uint8_t {
        ready,      ///< has no workers and a new store: may be in the next round
        starting,   ///< was given its place in the round
        running,    ///< its workers are exec'd
        succeeded,  ///< all its workers have exited with 0
        stopping,   ///< was sent a stop; its workers may still live
        out,        ///< was not ready when the drain ended: excluded until it is
    };

    control::Join join;
    /// The last connection; current while `is_connected`.
    Connected connection;
    Reach reach;
    std::uint64_t arrival = 0;
    /// The token that its next resume must show; none: the nonce is enough (protocol version 1).
    std::optional<Nonce> token;
    /// A later message has shown that the member has received its welcome.
    bool has_answered = false;

    State state = State::ready;
    bool is_connected = true;
    /// The signal named in its `leave`.
    std::optional<int> leave_signal;
    /// Set until it is answered with `NoticeOver`.
    std::optional<GivenNotice> notice;
    /// Its place in the current round, or in the last one.
    std::optional<int> group_rank;
    Instant came_at{};
    /// The time since which another node has requested this member's fixed place.
    std::optional<Instant> contested_at;
    /// Set while the node has no place because of a hold.
    std::optional<Hold> hold;
    /// Set when a command has drained the node: the reason for which it was ordered to leave.
    std::optional<std::string> drain_reason;
    /// The host was drained before the node joined: the node gets no place until the host is
    /// undrained.
    bool is_of_drained_host = false;
    /// Some of its workers of the current round can be held.
    bool is_recoverable = false;
    /// The workers that it holds for the next round.
    std::vector<control::KeptWorker> kept;
    /// Set while stopping: until when the drain waits for the member. It waits longer only while
    /// the member is silent.
    std::optional<Instant> ready_by;

    const Nonce& nonce() const { return join.node.nonce; }
    /// The version of the protocol: messages of newer versions are not sent to it.
    int version() const { return control::common_version(join.versions); }
    const std::string& host() const { return join.node.host; }
    /// "node2 (pid 4242)".
    std::string name() const;
    bool is_leaving() const { return leave_signal.has_value(); }
    /// The node may have a place in a later round.
    bool stays() const { return !is_leaving() && !drain_reason && !is_of_drained_host; }
    bool speaks_through(ConnectionId id) const {
        return is_connected && connection.connection == id;
    }
    void become(State next) {
        state = next;
        ready_by.reset();
    }
    /// The node would be in the next round: it is connected, not about to leave, and has no workers
    /// that cannot be killed.
    bool is_present() const { return stays() && is_connected && !notice && state != State::out; }
    /// The node may be given a place in the next round.
    bool is_candidate() const {
        return state == State::ready && is_connected && stays() && join.store_port != 0;
    }
    /// The node has, or may have, workers of the current round.
    bool is_active() const {
        return state == State::starting || state == State::running || state == State::succeeded ||
               state == State::stopping;
    }
};

std::string_view name_of(Member::State state);

/// All nodes of one job by their nonce. A plain container: the job decides what follows from a
/// change.
///
/// While thousands join, each join reads the counts, so they are kept up to date: only members that
/// were handed out for a change since the event began (`open_`) are counted again.
class Membership {
public:
    /// Invalidates all pointers handed out before. Call it between two events.
    void begin_event();

    /// Requires: no node of this nonce is here.
    Member& add(Member member);
    void remove(const Nonce& nonce);
    Member* find(const Nonce& nonce);
    const Member* find(const Nonce& nonce) const;

    std::size_t size() const { return by_nonce_.size(); }
    /// How many nodes were ever added.
    std::uint64_t arrivals() const { return next_arrival_; }
    /// How many nodes may be in the next round; held members count only if there are fewer than
    /// `min` without them.
    std::size_t candidate_count(std::size_t min);
    /// Members in `Member::State::starting`.
    std::size_t starting_count();
    /// Members in `Member::State::stopping`.
    std::size_t stopping_count();
    /// Members without a group rank.
    std::size_t standby_count();
    std::size_t connected_count();
    /// Whether any member may be in a later round.
    bool has_staying() const;
    /// Members that may be in a later round, ready or not.
    std::size_t staying_count() const;

    /// Checks the counts. Visits every member.
    void check() const;

    /// In order of arrival; messages to all members are sent in this order.
    std::vector<Member*> by_arrival();
    std::vector<const Member*> by_arrival() const;
    /// Members without a group rank, in order of arrival.
    std::vector<Member*> standbys();

private:
    struct Counts {
        std::size_t free = 0;
        std::size_t held = 0;
        std::size_t starting = 0;
        std::size_t stopping = 0;
        std::size_t standby = 0;
        std::size_t connected = 0;

        Counts& operator+=(const Counts& other);
        Counts& operator-=(const Counts& other);
        bool operator==(const Counts&) const = default;
    };
    struct Entry {
        Member member;
        /// What this member contributes to `counts_`.
        Counts counted;
        /// Its place in `open_`.
        std::optional<std::size_t> open_index;
    };

    static Counts counts_of(const Member& member);
    Member* open(Entry& entry);
    const Counts& counts();

    std::map<Nonce, Entry> by_nonce_;
    std::map<std::uint64_t, Entry*> by_arrival_;
    std::uint64_t next_arrival_ = 0;
    /// Members handed out since the event began; null when removed.
    std::vector<Entry*> open_;
    Counts counts_;
};

/// Chooses the members of the next round: those of the last round first, then by arrival; at most
/// `most`. Held members are chosen only as far as they are needed for `min`, in the order of their
/// release.
std::vector<Member*> choose_members(Membership& members, std::size_t min, std::size_t most);

/// Why this node cannot be in a job with that one, naming both values; empty when it can.
std::string disagreement(const control::Join& job, const control::Join& node);

}  // namespace ddprun::coordinator
