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

/// The host of a node was lost or left too often: the node gets into a round when the hold is over,
/// or earlier if the round has too few nodes without it.
struct Hold {
    Instant ends_at{};
    Duration length{};
};

/// The node is about to be taken away: all ranks are to save before.
struct GivenNotice {
    std::string reason;
    int signal = 0;
    /// When the save is no longer waited for.
    Instant ends_at{};
    std::optional<std::uint64_t> asked;
    bool ends_job = false;
    /// Of `asked`.
    std::optional<int> round;
};

/// One node of a job. When it was last heard: silence.hpp.
struct Member {
    enum class State : std::uint8_t {
        ready,      ///< has no workers and a fresh store: may be in the next round
        starting,   ///< was given its place in the round
        running,    ///< its workers are exec'd
        succeeded,  ///< its workers all exited 0
        stopping,   ///< was sent a stop, its workers may live
        out,        ///< was not ready when the drain was over: does not count until it is
    };

    control::Join join;
    /// The last one; current while `is_connected`.
    Connected connection;
    Reach reach;
    std::uint64_t arrival = 0;
    /// What its next resume must show; without, its nonce is enough (protocol version 1).
    std::optional<Nonce> token;
    /// It has received its welcome: a message that follows it has come.
    bool has_answered = false;

    State state = State::ready;
    bool is_connected = true;
    /// The signal named in its `leave`.
    std::optional<int> leave_signal;
    /// Until it was answered with `NoticeOver`.
    std::optional<GivenNotice> notice;
    /// Place in the current round, or in the last one.
    std::optional<int> group_rank;
    Instant came_at{};
    /// Since when another node asks for its fixed place.
    std::optional<Instant> contested_at;
    /// While it has no place.
    std::optional<Hold> hold;
    /// A command has named it: it has the order to leave, which gives this reason.
    std::optional<std::string> drain_reason;
    /// Its host was drained before it joined: it has no place until the host is undrained.
    bool is_of_drained_host = false;
    /// While stopping: the drain waits for it until then, and longer only while it is silent.
    std::optional<Instant> ready_by;

    const Nonce& nonce() const { return join.node.nonce; }
    /// Of the protocol: messages of newer versions are not sent to it.
    int version() const { return control::common_version(join.versions); }
    const std::string& host() const { return join.node.host; }
    /// "node2 (pid 4242)".
    std::string name() const;
    bool is_leaving() const { return leave_signal.has_value(); }
    /// May be in a later round.
    bool stays() const { return !is_leaving() && !drain_reason && !is_of_drained_host; }
    bool speaks_through(ConnectionId id) const {
        return is_connected && connection.connection == id;
    }
    void become(State next) {
        state = next;
        ready_by.reset();
    }
    /// May be given a place in the next round.
    bool is_candidate() const {
        return state == State::ready && is_connected && stays() && join.store_port != 0;
    }
    /// It has, or may have, workers of the current round.
    bool is_active() const {
        return state == State::starting || state == State::running || state == State::succeeded ||
               state == State::stopping;
    }
};

std::string_view name_of(Member::State state);

/// All nodes of one job by their nonce. A plain container: what follows from a change is decided by
/// the job.
///
/// While thousands join, each join reads the counts. So nothing is counted again from the start:
/// `open_` holds the members that were handed out for a change since the event began, and only
/// these are counted again.
class Membership {
public:
    /// No pointer that was handed out before is used any more. Call it between two events.
    void begin_event();

    /// Requires: no node of this nonce is here.
    Member& add(Member member);
    void remove(const Nonce& nonce);
    Member* find(const Nonce& nonce);
    const Member* find(const Nonce& nonce) const;

    std::size_t size() const { return by_nonce_.size(); }
    /// How many nodes were ever added.
    std::uint64_t arrivals() const { return next_arrival_; }
    /// How many may be in the next round: held members only as far as there are fewer than `min`
    /// without them.
    std::size_t candidate_count(std::size_t min);
    /// Members in `Member::State::starting`.
    std::size_t starting_count();
    /// Members in `Member::State::stopping`.
    std::size_t stopping_count();
    /// Members without a group rank.
    std::size_t standby_count();
    std::size_t connected_count();
    /// Some member may be in a later round.
    bool has_staying() const;
    /// Members that may be in a later round, ready or not.
    std::size_t staying_count() const;

    /// What must hold of the counts. Looks at every member.
    void check() const;

    /// In order of arrival: messages to all members leave in this order.
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
        /// What it adds to `counts_`.
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
    /// Handed out since the event began; null where it was removed.
    std::vector<Entry*> open_;
    Counts counts_;
};

/// The members of the next round: those of the last one first, then by arrival; at most `most`. Of
/// the held ones only as many as `min` needs, soonest free first.
std::vector<Member*> choose_members(Membership& members, std::size_t min, std::size_t most);

/// Why this node cannot be in a job with that one, naming both values; empty if it can.
std::string disagreement(const control::Join& job, const control::Join& node);

}  // namespace ddprun::coordinator
