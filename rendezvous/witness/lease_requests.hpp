// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

/// The requests that an election needs, and their answers, whichever engine keeps the job's record:
/// etcd_gateway and kubernetes_gateway write them as that engine has them.
namespace ddprun::witness {

/// The leader as its candidacy has announced it.
struct Leader {
    std::string endpoint;
    /// The nonce of the process that wrote it.
    std::string nonce;
    std::uint64_t epoch = 0;
    bool operator==(const Leader&) const = default;
};

/// A leadership, or a candidacy whose outcome may be unknown, and its names in the engine.
struct Candidacy {
    Leader leader;
    /// The lease that keeps it.
    std::int64_t lease = 0;
    /// The revision of the leader's key; 0: not elected yet.
    std::int64_t revision = 0;
    bool operator==(const Candidacy&) const = default;
};

/// The state of the election.
struct Record {
    /// None: the job has no leader.
    std::optional<Candidacy> held;
    /// The epoch of the last leader; 0: there was none.
    std::uint64_t epoch = 0;
    /// The revision of the epoch; 0: there is none.
    std::int64_t epoch_revision = 0;
};

// ---- requests -----------------------------------------------------------------------------------

struct ReadRecord {
    bool operator==(const ReadRecord&) const = default;
};
struct GrantLease {
    std::int64_t ttl_s = 0;
    bool operator==(const GrantLease&) const = default;
};
/// Makes it the leader, if there is none and the epoch is unchanged since it was read.
struct Campaign {
    Candidacy candidacy;
    std::int64_t epoch_revision = 0;
    bool operator==(const Campaign&) const = default;
};
struct KeepLease {
    Candidacy candidacy;
    bool operator==(const KeepLease&) const = default;
};
/// Ends a leadership, or a candidacy. The epoch is kept.
struct Revoke {
    Candidacy candidacy;
    bool operator==(const Revoke&) const = default;
};
/// Stores how a job has ended, for as long as `lease` lasts, if the candidacy still leads.
struct RecordEnd {
    Candidacy candidacy;
    std::string ended;
    std::int64_t lease = 0;
    bool operator==(const RecordEnd&) const = default;
};
/// For a job that is over: ends the leadership and removes its epoch, if the candidacy still leads.
struct Erase {
    Candidacy candidacy;
    bool operator==(const Erase&) const = default;
};
using LeaseRequest =
    std::variant<ReadRecord, GrantLease, Campaign, KeepLease, Revoke, RecordEnd, Erase>;

// ---- answers, in the order of the requests ------------------------------------------------------

struct Grant {
    std::int64_t lease = 0;
    std::int64_t ttl_s = 0;
};
struct Campaigned {
    bool is_won = false;
    /// When won: the revision of the leader's key.
    std::int64_t revision = 0;
    /// When lost: the leader that there is.
    Record record;
    /// When won: how jobs have ended, as earlier leaders stored it; may be empty.
    std::string ended;
};
struct Kept {
    /// The time that the lease has left; 0: it no longer exists.
    std::int64_t ttl_s = 0;
};
struct EndStored {
    /// False: another one leads, or none.
    bool is_stored = false;
};
/// To Revoke and Erase, whose outcome changes nothing.
struct Done {};
using LeaseAnswer = std::variant<Record, Grant, Campaigned, Kept, EndStored, Done>;

}  // namespace ddprun::witness
