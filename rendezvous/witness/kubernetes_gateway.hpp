// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/witness/lease_place.hpp"
#include "rendezvous/witness/lease_requests.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

/// The requests of an election as reads and writes of one Lease object (coordination.k8s.io/v1) at
/// an API server of Kubernetes. Each request is a read, and a write of the object as it was read: a
/// write of a version that is no longer the newest is refused with 409, and all begins again.
///
/// `holderIdentity` is the nonce of the leader's process; annotations have what else a record has.
namespace ddprun::witness::kubernetes {

/// What a candidate of a job writes.
struct Job {
    std::string run_id;
    /// The nonce of this process.
    std::string nonce;
};

/// The Lease as it was read.
struct Lease {
    /// The whole object, of which a write changes only its own fields.
    std::string text;
    /// `metadata.resourceVersion`: it changes with each write, and a write of an earlier version is
    /// refused.
    std::string version;
    /// The job that the record is about; empty: none yet.
    std::string run_id = {};
    /// The nonce is empty if the Lease has no holder. The epoch is 0 if there was no leader.
    Leader leader = {};
    Duration duration{};
    /// `acquireTime` and `renewTime`, which are only compared to see whether they have changed.
    std::string acquired = {};
    std::string renewed = {};
    /// How jobs of `run_id` have ended.
    std::string ended = {};
};

/// Judges whether a Lease has expired as client-go's elections do. The time counts on this
/// machine's clock, from the last seen change of the fields that a leader writes; the times in the
/// Lease are of another machine. Other programs' writes, such as a label, renew nothing.
class Observation {
public:
    /// `now`: when the Lease was received.
    void see(const Lease& lease, Instant now);
    /// `ttl`: the longest time for which a leader of this program relies on its last renewal, even
    /// if another program has written another duration into the Lease. Requires: the Lease was seen
    /// last.
    bool is_expired(const Lease& lease, Duration ttl, Instant now) const;

private:
    /// What a leader writes when it takes or renews the Lease.
    struct Renewal {
        std::string holder;
        std::uint64_t epoch = 0;
        std::string acquired;
        std::string renewed;
        Duration duration{};
        bool operator==(const Renewal&) const = default;
    };
    static Renewal renewal_of(const Lease& lease);

    std::optional<Renewal> seen_;
    Instant since_{};
};

/// None: there is no such Lease. Fails for answers of other programs, errors of the API server and
/// objects that no candidate has written.
Result<std::optional<Lease>> read_lease(const LeasePlace& place, int status, std::string_view body);

enum class Method : std::uint8_t { get, post, put };
struct Call {
    Method method = Method::get;
    std::string path;
    std::string body = {};
    bool operator==(const Call&) const = default;
};
Call read(const LeasePlace& place);

/// A write, and the answer once the API server has performed it.
struct Write {
    Call call;
    LeaseAnswer answer;
};
using Step = std::variant<Write, LeaseAnswer>;

/// The facts from which `step` decides about a request. `lease`: as it was just read; none: there
/// is no Lease.
struct Facts {
    std::optional<Lease> lease = std::nullopt;
    bool is_expired = false;
    /// "2026-11-21T12:03:07.113000Z", for people and other programs.
    std::string time = {};
    std::int64_t ttl_s = 0;
};
Result<Step> step(
    const LeasePlace& place, const Job& job, const LeaseRequest& request, const Facts& facts);

enum class Outcome : std::uint8_t {
    performed,
    /// Another program has written the Lease since it was read, or has removed it.
    outdated,
    refused
};
Outcome outcome_of(int status);

/// The text of an error answer with advice, for a message.
std::string describe_error(const LeasePlace& place, int status, std::string_view body);

}  // namespace ddprun::witness::kubernetes
