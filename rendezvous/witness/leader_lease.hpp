// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/witness/lease_requests.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::witness {

/// Determines which server leads a job, by a record in an engine (etcd, a Kubernetes Lease) that
/// names a leader only while its lease is kept, and handles this process's candidacy. Driven by
/// agent/runner/election (etcd_client, kubernetes_client) and unit tests.
///
///   idle         --Sought-->                 reading      Ask for the record
///   idle         --Sought, first try-->      idle         Found: the last leader, if it is known
///   reading      --a leader-->               idle         Found
///   reading      --own key of an attempt
///                  whose answer was lost-->  withdrawing  Ask to revoke its lease
///   reading      --none-->                   opening      OpenServer
///   opening      --ServerOpened-->           granting     Ask for a lease
///   granting     --granted-->                campaigning  Ask for the key
///   campaigning  --won-->                    leading      Elected
///   campaigning  --lost-->                   idle         Found
///   campaigning  --no answer-->              withdrawing
///   leading      --a third of the TTL-->     leading      Ask to keep the lease; answered:
///                                                         Extended
///   leading      --EndDecided-->             leading      Ask for a lease of its own, then to keep
///                                                         the end under it; answered: Recorded
///   leading      --0.8 TTL since the last
///                  answered request-->       idle         (the server ends its term by its clock)
///   leading      --lease or key is gone-->   idle         Deposed
///   leading      --SteppedDown-->            withdrawing
///   any          --Left-->                   released     Released, once the key is given back
///   before leading, without an answer        idle         NotFound
///
/// The epoch of a new leadership is higher than the recorded one and than any that a node has
/// followed, so it does not decrease even if the engine's data is reset to an older state.
class LeaderLease {
public:
    struct Config {
        /// The engine that keeps the job's record, as in messages: "etcd".
        std::string engine;
        /// The nonce of this process.
        std::string nonce;
        Duration ttl{};
    };

    // ---- events ----

    /// This node needs the leader. Answered by Found, Elected or NotFound. `is_first_try`: this is
    /// the first attempt since the connection to the last leader ended. That leader may still lead,
    /// and then gives away the ranks of a node that does not come back soon. So it is tried before
    /// the engine, which may be slow.
    struct Sought {
        bool is_first_try = false;
    };
    /// Answers to Ask.
    struct Answered {
        int request;
        Result<LeaseAnswer> answer;
    };
    /// Answers to OpenServer.
    struct ServerOpened {
        Result<std::string> endpoint;
    };
    /// This node's server no longer leads in this epoch; `known_epoch` is the newest epoch that a
    /// node has reported to it.
    struct SteppedDown {
        std::uint64_t epoch;
        std::uint64_t known_epoch;
    };
    /// A job of this node's server has ended, and no node may get the result before the end is
    /// recorded. `ends` includes the earlier ends; a later event replaces it.
    struct EndDecided {
        std::uint64_t epoch;
        std::uint64_t number;
        std::string ends;
    };
    /// This node no longer needs a leader. If the job is over, its keys are removed.
    struct Left {
        bool is_job_over;
    };
    struct DeadlinePassed {};
    using Event =
        std::variant<Sought, Answered, ServerOpened, SteppedDown, EndDecided, Left, DeadlinePassed>;

    // ---- effects ----

    struct Ask {
        int request;
        LeaseRequest what;
        bool operator==(const Ask&) const = default;
    };
    struct OpenServer {
        bool operator==(const OpenServer&) const = default;
    };
    struct Found {
        Leader leader;
        bool operator==(const Found&) const = default;
    };
    struct Elected {
        std::uint64_t epoch;
        Instant until;
        /// The job had a leader before.
        bool led_before;
        /// The ends as recorded by earlier leaders.
        std::string ends = {};
        bool operator==(const Elected&) const = default;
    };
    struct Extended {
        std::uint64_t epoch;
        Instant until;
        bool operator==(const Extended&) const = default;
    };
    /// The ends of this and all earlier `EndDecided` are recorded and outlive this leader.
    struct Recorded {
        std::uint64_t number;
        bool operator==(const Recorded&) const = default;
    };
    struct Deposed {
        std::string reason;
        bool operator==(const Deposed&) const = default;
    };
    struct NotFound {
        std::string reason;
        bool operator==(const NotFound&) const = default;
    };
    struct Released {
        bool operator==(const Released&) const = default;
    };
    using Effect = std::
        variant<Ask, OpenServer, Found, Elected, Extended, Recorded, Deposed, NotFound, Released>;

    explicit LeaderLease(Config config) : config_(std::move(config)) {}

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    bool is_leading() const { return std::holds_alternative<Leading>(state_); }

private:
    using Effects = std::vector<Effect>;

    struct Idle {};
    struct Reading {};
    struct Opening {
        Record record;
    };
    struct Granting {
        Record record;
        std::string endpoint;
        Instant asked_at;
    };
    struct Campaigning {
        Candidacy candidacy;
        Duration ttl;
        Instant until;
        bool led_before;
    };
    /// An end that is not recorded yet.
    struct Unrecorded {
        std::uint64_t number;
        std::string ends;
        Instant ask_at;
        /// The lease under which it is kept; 0: not granted yet.
        std::int64_t lease = 0;
    };
    enum class Asking : std::uint8_t { to_keep, for_lease_of_end, to_record };
    struct Leading {
        Candidacy candidacy;
        Duration ttl;
        Instant until;
        Instant ask_at;
        Instant asked_at{};
        std::optional<Unrecorded> end = std::nullopt;
        /// The kind of the open request.
        Asking asking = Asking::to_keep;
    };
    struct Withdrawing {};
    struct Releasing {};
    struct Gone {};
    using State = std::variant<
        Idle,
        Reading,
        Opening,
        Granting,
        Campaigning,
        Leading,
        Withdrawing,
        Releasing,
        Gone>;

    void on_sought(bool is_first_try, Instant now, Effects& out);
    void on_answered(Answered answered, Instant now, Effects& out);
    void on_read(Record record, Instant now, Effects& out);
    void on_opened(ServerOpened opened, Instant now, Effects& out);
    void on_granted(const Grant& grant, Instant now, Effects& out);
    void on_campaigned(const Campaigned& campaign, Instant now, Effects& out);
    void on_kept(const std::optional<Kept>& kept, Instant now, Effects& out);
    void on_end_decided(EndDecided decided, Instant now, Effects& out);
    void on_lease_of_end(const std::optional<Grant>& grant, Instant now, Effects& out);
    void on_recorded(const std::optional<EndStored>& stored, Instant now, Effects& out);
    void ask_what_is_due(Instant now, Effects& out);
    void depose(std::string reason, Effects& out);
    void on_stepped_down(const SteppedDown& event, Instant now, Effects& out);
    void on_left(bool is_job_over, Instant now, Effects& out);
    void on_deadline(Instant now, Effects& out);
    void follow(const Leader& leader, Effects& out);
    void fail(std::string reason, Effects& out);
    void withdraw(const Candidacy& candidacy, Instant now, Effects& out);
    void ask(LeaseRequest what, Instant now, Effects& out);

    Config config_;
    State state_;
    int last_request_ = 0;
    /// The request that has no answer yet, and the time at which it counts as failed.
    struct Open {
        int request;
        Instant ends_at;
    };
    std::optional<Open> open_;
    /// The newest epoch that was recorded or reported to this node.
    std::uint64_t known_epoch_ = 0;
    /// The last leader that was reported as `Found`.
    std::optional<Leader> followed_;
};

std::string describe(const LeaderLease::Event& event);
std::string describe(const LeaderLease::Effect& effect);

}  // namespace ddprun::witness
