// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "worker_sdk/src/groups/group_error.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::groups {

/// Decides for one group on one rank whether to keep waiting, or why to stop: a peer is lost, the
/// call timed out, or ranks made different calls. Facts are the input; questions to the store and
/// the verdict are the output. The first verdict is final.
///
/// Driven by FailureMonitor. Each queue of the group waits for one call at a time, and has a state:
///
///   state       fact                          way            becomes     asks or reports
///   idle        WaitSeen                      any            waiting     nothing
///   waiting     DeadlinePassed, when due      any            waiting     ReadReports, CompareCalls
///   waiting     ConnectionBroke for 5 s       any            waiting     BreakConnections
///   any         ProcessesEnded                memory, hosts  the same    Found: PeerLost
///   any         PeersLate                     memory, hosts  the same    Found: Timeout
///   any         CallsDiffer                   memory, hosts  the same    Found: Mismatch
///   waiting     ProcessesEnded for 250 ms     gpus           confirming  ReadReports
///   any         CallFailed: lost, with ranks  hosts          asking      AskWaiters: is one?
///   asking      WaitersRead: one is           hosts          naming      ReadReports, for 1 s
///   any         CallFailed: lost, no ranks    gpus           naming      ReadReports, for 1.5 s
///   naming      ProcessesEnded for 250 ms     gpus           confirming  ReadReports
///   naming      DeadlinePassed: it is over    any            confirming  ReadReports
///   confirming  CallFailed: less is known     any            confirming  nothing
///   any         CallFailed: late, suspects    any            asking      AskWaiters: are all?
///   asking      WaitersRead: else             any            confirming  ReadReports
///   any         CallFailed: lost, late, else  any            confirming  ReadReports
///   any         CallFailed: other errors      hosts          confirming  ReadReports
///   any         CallFailed: mismatch          not memory     decided     Publish, and that
///   any         CallFailed: else              any            decided     that
///   confirming  NoReport                      any            decided     Publish, and that
///   confirming  StoreUnreachable              any            decided     that
///   any         ReportRead                    any            decided     what was reported
///   any         DesyncSeen                    any            decided     Publish, and Mismatch
///   any         WaiterTimedOut, KeyMissing    any            decided     Timeout
///   any         StoreLost                     any            decided     PeerLost
///
/// Without reports in the store `confirming` and `asking` end at once. Once this rank has broken
/// its connections itself (Aborted, BreakConnections), `asking` and `naming` are skipped. After a
/// verdict every failing call fails with it; all facts are ignored except those that ranks of one
/// host report. A fact without a row changes nothing: it is late, or is not used with that way.
class FailureDetector {
public:
    /// How the ranks exchange data, and how a loss is therefore detected.
    enum class Way {
        memory,  ///< one host: ranks check each other's processes and share one error
        hosts,   ///< memory on this host; between hosts a broken connection names a rank
        gpus,    ///< processes of this host, and NCCL's errors, which name no rank
    };
    struct Settings {
        Way way = Way::memory;
        /// Whether ranks and agents write reports that this rank can read.
        bool has_reports = false;
    };

    /// The queue of the group that a wait is in; `group` for creating it and for a Reducer's steps.
    enum class Queue : std::size_t { collectives, sends, receives, group };
    static constexpr std::size_t queue_count = 4;

    // Facts. A wait is identified by its start time.
    struct WaitSeen {
        Queue queue;
        Instant since;
        bool operator==(const WaitSeen&) const = default;
    };
    struct WaitEnded {
        Queue queue;
        Instant since;
        bool operator==(const WaitEnded&) const = default;
    };
    /// Ranks that the call needs have ended: a pidfd fired, or the rank has left. The fact is
    /// repeated while it is true.
    struct ProcessesEnded {
        Queue queue;
        std::vector<int> ranks;
        bool operator==(const ProcessesEnded&) const = default;
    };
    /// The call timed out and these ranks of this host have not arrived.
    struct PeersLate {
        Queue queue;
        std::vector<int> ranks;
        Duration after;
        bool operator==(const PeersLate&) const = default;
    };
    /// The ranks of this host have posted different calls.
    struct CallsDiffer {
        Queue queue;
        GroupError mismatch;
        bool operator==(const CallsDiffer&) const = default;
    };
    /// A connection to a peer broke during this call of the queue. The fact is repeated while it is
    /// true.
    struct ConnectionBroke {
        Queue queue;
        std::uint64_t call;
        bool operator==(const ConnectionBroke&) const = default;
    };
    /// The transport's error: lost connections, NCCL's asynchronous error, its own timeout.
    struct CallFailed {
        Queue queue;
        GroupError error;
        /// Ranks that may have caused a Timeout without names.
        std::vector<int> suspects{};
        bool operator==(const CallFailed&) const = default;
    };
    /// A deadline of the program passed in `operation`; these ranks are known to be late.
    struct WaiterTimedOut {
        Queue queue;
        std::string operation;
        std::vector<int> missing;
        bool operator==(const WaiterTimedOut&) const = default;
    };
    /// While ranks connect: a key that a peer sets was not set in time.
    struct KeyMissing {
        Queue queue;
        std::string text;
        bool operator==(const KeyMissing&) const = default;
    };
    /// While ranks connect: the store refuses, and no group can be created without it.
    struct StoreLost {
        Queue queue;
        std::string text;
        bool operator==(const StoreLost&) const = default;
    };
    /// This rank itself aborted the group.
    struct Aborted {
        bool operator==(const Aborted&) const = default;
    };
    struct DeadlinePassed {
        Queue queue;
        bool operator==(const DeadlinePassed&) const = default;
    };
    // The store's answers.
    struct ReportRead {
        Queue queue;
        GroupError error;
        bool operator==(const ReportRead&) const = default;
    };
    struct NoReport {
        Queue queue;
        bool operator==(const NoReport&) const = default;
    };
    /// Another rank is in another call.
    struct DesyncSeen {
        Queue queue;
        GroupError mismatch;
        bool operator==(const DesyncSeen&) const = default;
    };
    /// `silent`: the requested ranks that have not waited long in the same call.
    struct WaitersRead {
        Queue queue;
        std::vector<int> silent;
        bool operator==(const WaitersRead&) const = default;
    };
    struct StoreUnreachable {
        Queue queue;
        bool operator==(const StoreUnreachable&) const = default;
    };
    using Event = std::variant<
        WaitSeen,
        WaitEnded,
        ProcessesEnded,
        PeersLate,
        CallsDiffer,
        ConnectionBroke,
        CallFailed,
        WaiterTimedOut,
        KeyMissing,
        StoreLost,
        Aborted,
        DeadlinePassed,
        ReportRead,
        NoReport,
        DesyncSeen,
        WaitersRead,
        StoreUnreachable>;

    /// Reads the reports that ranks and agents have written.
    struct ReadReports {
        Queue queue;
        bool operator==(const ReadReports&) const = default;
    };
    /// Like ReadReports; then writes this rank's call and compares it with the others'.
    struct CompareCalls {
        Queue queue;
        bool operator==(const CompareCalls&) const = default;
    };
    struct AskWaiters {
        Queue queue;
        std::vector<int> ranks;
        bool operator==(const AskWaiters&) const = default;
    };
    /// Writes the error into the store, unless another report is there.
    struct Publish {
        GroupError error;
        bool operator==(const Publish&) const = default;
    };
    /// For the ranks of this host: the call fails with the first error that any of these ranks
    /// writes into shared memory.
    struct Found {
        GroupError error;
        bool operator==(const Found&) const = default;
    };
    /// Breaks this rank's connections, so that the call fails and reports which peers are gone.
    struct BreakConnections {
        bool operator==(const BreakConnections&) const = default;
    };
    /// The error of the queue's failed call.
    struct Decided {
        Queue queue;
        GroupError error;
        bool operator==(const Decided&) const = default;
    };
    using Effect = std::
        variant<ReadReports, CompareCalls, AskWaiters, Publish, Found, BreakConnections, Decided>;

    explicit FailureDetector(Settings settings) : settings_(settings) {}

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;
    std::optional<Instant> next_deadline(Queue queue) const;

    /// Why the group has ended; none: that is not decided yet.
    const std::optional<GroupError>& verdict() const { return verdict_; }

private:
    /// When the store is queried next; the interval doubles each time, up to the longest.
    struct Schedule {
        Instant at;
        Duration interval;
        Duration longest;
    };
    struct Idle {};
    struct Waiting {
        struct Break {
            std::uint64_t call;
            Instant since;
        };
        Instant since;
        Schedule questions;
        std::optional<Break> broken{};
        std::optional<Instant> ended_since{};
    };
    /// Asks the store which of `asked` wait in the same call.
    struct Asking {
        GroupError error;
        std::vector<int> asked;
    };
    /// Until this ends, a report may still name the lost rank or the reason.
    struct Naming {
        GroupError error;
        Instant until;
        Schedule questions;
        Instant look_at;
        int looks;
        std::optional<Instant> ended_since;
    };
    /// Reads the reports a last time before the error is final.
    struct Confirming {
        GroupError error;
    };
    using State = std::variant<Idle, Waiting, Asking, Naming, Confirming>;
    using Effects = std::vector<Effect>;

    void on(WaitSeen fact, Instant now, Effects& out);
    void on(WaitEnded fact, Instant now, Effects& out);
    void on(ProcessesEnded fact, Instant now, Effects& out);
    void on(PeersLate fact, Instant now, Effects& out);
    void on(CallsDiffer fact, Instant now, Effects& out);
    void on(ConnectionBroke fact, Instant now, Effects& out);
    void on(CallFailed fact, Instant now, Effects& out);
    void on(WaiterTimedOut fact, Instant now, Effects& out);
    void on(KeyMissing fact, Instant now, Effects& out);
    void on(StoreLost fact, Instant now, Effects& out);
    void on(Aborted fact, Instant now, Effects& out);
    void on(DeadlinePassed fact, Instant now, Effects& out);
    void on(ReportRead fact, Instant now, Effects& out);
    void on(NoReport fact, Instant now, Effects& out);
    void on(DesyncSeen fact, Instant now, Effects& out);
    void on(WaitersRead fact, Instant now, Effects& out);
    void on(StoreUnreachable fact, Instant now, Effects& out);

    State& state(Queue queue) { return states_[static_cast<std::size_t>(queue)]; }
    bool sees_memory() const { return settings_.way == Way::memory || settings_.way == Way::hosts; }
    Schedule first_questions(Queue queue, Instant since) const;
    static bool is_due(Schedule& questions, Instant now);
    void ask_waiters(CallFailed fact, Effects& out);
    void name(Queue queue, GroupError error, Instant now, Effects& out);
    void look_for_name(Queue queue, Naming& naming, Instant now, Effects& out);
    void confirm(Queue queue, GroupError error, Effects& out);
    void decide(Queue queue, GroupError error, Effects& out);

    const Settings settings_;
    std::array<State, queue_count> states_{};
    std::optional<GroupError> verdict_;
    /// Whether this rank has broken its connections itself. This may then be the cause of changes
    /// that it observes in peers.
    bool is_broken_here_ = false;
};

}  // namespace ddprun::groups
