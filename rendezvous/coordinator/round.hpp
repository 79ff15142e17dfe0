// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/membership.hpp"
#include "rendezvous/coordinator/reach.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::coordinator {

/// A member's report of its workers' connections to the store, and when it arrived.
struct ReportedClients {
    control::StoreClients what;
    Instant at{};
};

/// A member's report of what its workers do, and when it arrived.
struct ReportedSites {
    control::NodeSites what;
    Instant at{};
};

/// A wait in the round's store, and when its report arrived.
struct ReportedWait {
    control::StoreWait what;
    Instant at{};
};

struct StoreWaits {
    /// The longest of the reported waits that have not ended.
    std::optional<ReportedWait> longest;
    /// A wait that its client has cancelled.
    std::optional<ReportedWait> timed_out;
    /// How many members have not yet reported their connections since the last report of a wait.
    std::size_t unanswered = 0;
    /// The key of the wait that was logged last.
    std::string noted_key;
};

/// A member's place in a round. The place is kept when the member is lost.
struct Place {
    Nonce nonce;
    std::string host;
    int nproc = 1;
    int rank_base = 0;
    std::string role;
    int role_rank_base = 0;
    int role_world_size = 0;
    Reach reach;
    std::uint16_t store_port = 0;
    std::uint16_t peer_port = 0;
    /// Group ranks of the members that are asked about this one when it is silent.
    std::vector<std::size_t> neighbours;
    /// Why the member has this group rank, from `rank_order`.
    std::string reason;
    bool has_succeeded = false;
    /// The member was lost or left after it had succeeded, so the round does not need it.
    bool is_gone = false;
    std::optional<ReportedClients> store_clients;
    /// The last progress that its workers reported.
    std::vector<control::RankProgress> progress;
    std::optional<ReportedSites> sites;
};

/// The places of a round, by group rank. The size of a recovered round was stated by a peer, so
/// only the places of members that have come back are stored.
class Places {
public:
    explicit Places(std::size_t size = 0) : size_(size) {}

    std::size_t size() const { return size_; }
    bool is_taken(std::size_t rank) const { return taken_.contains(rank); }
    /// Requires: is_taken(rank).
    Place& at(std::size_t rank) { return taken_.at(rank); }
    const Place& at(std::size_t rank) const { return taken_.at(rank); }
    /// Requires: rank < size().
    Place& take(std::size_t rank) { return taken_[rank]; }
    /// By group rank. Complete except in a recovered round.
    const std::map<std::size_t, Place>& taken() const { return taken_; }
    std::map<std::size_t, Place>& taken() { return taken_; }

private:
    std::size_t size_ = 0;
    std::map<std::size_t, Place> taken_;
};

/// The assignment of ranks to members, in the current or the last round. A value; `Job` decides
/// when there is another. Ranks are prefix sums over the places, per world and per role.
struct Round {
    int number = 0;
    int world_size = 0;
    int restart_count = 0;
    Places places;
    std::size_t succeeded_count = 0;
    Instant began_at{};
    /// The last step that was completed in earlier rounds.
    std::optional<std::uint64_t> done_step;
    /// Set when workers are kept (kept_workers.hpp).
    std::optional<control::StateSource> state;
    /// How many rounds in a row, with this one, have begun with the state of that step.
    int state_uses = 0;
    /// Why the round before it ended; empty for the first one.
    std::string because;
    /// Rebuilt from what its members reported after the server was started again.
    bool is_recovered = false;
    StoreWaits store_waits;
    /// Describes how all ranks saved before a node was taken away; the job continues without that
    /// node.
    std::optional<std::string> saved;

    /// Requires: `member` has a group rank.
    Place& place_of(const Member& member) {
        return places.at(static_cast<std::size_t>(member.group_rank.value()));
    }
    const Place& place_of(const Member& member) const {
        return places.at(static_cast<std::size_t>(member.group_rank.value()));
    }
    /// The round cannot continue without this member.
    bool needs(const Member& member) const;
    /// The assignment to send to this member; addresses are as seen from its connection.
    control::Assignment assignment_for(const Member& member) const;
    /// In a recovered round: gives the member the place of its assignment. False if the assignment
    /// contradicts the round or the place is taken.
    bool put_back(const Member& member, const control::Assignment& assignment);
    /// "node1, node2 and 3 more".
    std::string hosts_text() const;
    /// Checks the ranks.
    void check() const;

    /// Copies a member's facts into a place. Used by `plan_round` and `put_back` only.
    void seat(std::size_t group_rank, const Member& member, int rank_base, int role_rank_base);
};

struct PlannedRound {
    Round round;
    /// About a node rank that several members requested; mostly empty.
    std::string warning;
};

/// Plans a round of these members: places, ranks and neighbours. The caller sets number, restarts
/// and times.
PlannedRound plan_round(const std::vector<Member*>& chosen);

/// Whether the numbers of the assignment are consistent: its place can be in such a round.
bool is_possible(const control::Assignment& assignment);
/// The round that one member has reported, with its size and without any member yet. Requires:
/// is_possible(assignment).
Round recovered_round(const control::Assignment& assignment, Instant now);

}  // namespace ddprun::coordinator
