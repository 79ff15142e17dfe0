// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/worker.hpp"
#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::agent {

/// All workers of one node in one round, by local rank. Created when they are being spawned; over
/// (`Ended`) when none of their processes is left in any session.
///
///   starting  --last Spawned-->            running     Started
///   starting, running --Exited, not 0-->   same        Failed(local rank), each time
///   running   --last Exited, all 0-->      succeeded   Succeeded
///   any       --StopRequested-->           stopping    each worker: SignalLeader or SignalSession
///   any       --KillRequested-->           stopping    each worker: KillSession
///   stopping  --last leader gone-->        stopping    CountLeftovers, again and again
///   stopping  --LeftoversCounted > 0-->    stopping    SignalLeftovers, once
///   stopping  --leftovers_grace later-->   stopping    SignalLeftovers(SIGTERM), once
///   stopping  --LeftoversCounted 0-->      ended       Ended
///   stopping  --grace over-->              stopping    KillSession, KillLeftovers
///   stopping  --kill_descendants_timeout later-->      FoundStuck, once
///
///   stopping  --LeftoversCounted 0, some workers are held--> held   HeldAll
///   held      --Exited-->                  held        KillLeftovers, HeldAll
///
/// A held group may be replaced by that of the next round, in which the held workers are spawned
/// again: their processes go on.
///
/// `Agent`, not the group, decides whether a death is the round's first failure, and what follows.
class WorkerGroup {
public:
    enum class State : std::uint8_t { starting, running, succeeded, stopping, held, ended };

    struct Spawned {
        int local_rank;
        int pid;
    };
    struct Exited {
        int local_rank;
        WorkerExit exit;
    };
    /// Answer to CountLeftovers, given at once: the number of living descendants of this agent that
    /// are not leaders.
    struct LeftoversCounted {
        int count;
    };
    struct StopRequested {
        int signal;
        Duration grace;
        /// How long this agent waits before it signals the workers, because another process may do
        /// so. None: they have the signal.
        std::optional<Duration> signal_after = Duration{};
        /// How long a worker that can be held may take until it is. None: all are stopped, held
        /// ones too.
        std::optional<Duration> hold_for = std::nullopt;
    };
    struct Recoverable {
        int local_rank;
        bool is_recoverable;
    };
    struct Held {
        control::KeptWorker worker;
    };
    struct KillRequested {};
    struct DeadlinePassed {};
    using Event = std::variant<
        Spawned,
        Exited,
        LeftoversCounted,
        StopRequested,
        Recoverable,
        Held,
        KillRequested,
        DeadlinePassed>;

    struct SignalLeader {
        int local_rank;
        int signal;
        bool operator==(const SignalLeader&) const = default;
    };
    struct SignalSession {
        int local_rank;
        int signal;
        bool operator==(const SignalSession&) const = default;
    };
    struct KillSession {
        int local_rank;
        bool operator==(const KillSession&) const = default;
    };
    /// Cancels the spawns that have not begun. Each is then reported as an exit with ECANCELED.
    struct CancelSpawns {
        bool operator==(const CancelSpawns&) const = default;
    };
    struct CountLeftovers {
        bool operator==(const CountLeftovers&) const = default;
    };
    /// Sends this signal to every process that CountLeftovers would count: each has outlived its
    /// leader.
    struct SignalLeftovers {
        int signal;
        bool operator==(const SignalLeftovers&) const = default;
    };
    /// Sends SIGKILL to every process that CountLeftovers would count.
    struct KillLeftovers {
        bool operator==(const KillLeftovers&) const = default;
    };
    /// Orders the worker to end its part of the round and to wait for the next one, which it has to
    /// do within `time`.
    struct HoldWorker {
        int local_rank;
        Duration time;
        bool operator==(const HoldWorker&) const = default;
    };
    struct Started {
        bool operator==(const Started&) const = default;
    };
    struct Failed {
        int local_rank;
        bool operator==(const Failed&) const = default;
    };
    struct Succeeded {
        bool operator==(const Succeeded&) const = default;
    };
    /// SIGKILL has not helped: the processes hang inside the kernel.
    struct FoundStuck {
        std::vector<int> local_ranks;
        int leftover_count;
        bool operator==(const FoundStuck&) const = default;
    };
    /// Every worker is gone or held. Sent again when one that was held has ended.
    struct HeldAll {
        bool operator==(const HeldAll&) const = default;
    };
    struct Ended {
        bool operator==(const Ended&) const = default;
    };
    using Effect = std::variant<
        SignalLeader,
        SignalSession,
        KillSession,
        CancelSpawns,
        CountLeftovers,
        SignalLeftovers,
        KillLeftovers,
        HoldWorker,
        Started,
        Failed,
        Succeeded,
        FoundStuck,
        HeldAll,
        Ended>;

    explicit WorkerGroup(int worker_count);

    void handle(Event event, Instant now, std::vector<Effect>& out);
    /// This group has sent SIGKILL, so a death by SIGKILL is expected.
    bool has_killed() const { return stuck_at_.has_value(); }
    std::optional<Instant> next_deadline() const;

    State state() const { return state_; }
    bool is_over() const { return state_ == State::ended; }
    bool is_held() const { return state_ == State::held; }
    /// Some of the workers can be held.
    bool has_recoverable() const;
    /// The workers that are held.
    std::vector<control::KeptWorker> kept() const;
    int size() const { return static_cast<int>(workers_.size()); }
    const Worker& worker(int local_rank) const;
    /// By local rank; 0: the worker has ended.
    std::vector<int> pids() const;
    /// The local ranks that have ended.
    std::vector<int> ended() const;

private:
    void notify(int local_rank, Worker::Event event, Instant now, std::vector<Effect>& out);
    void notify_all(const Worker::Event& event, Instant now, std::vector<Effect>& out);
    void stop(const StopRequested& request, Instant now, std::vector<Effect>& out);
    void begin_stopping(Instant kill_at, std::vector<Effect>& out);
    void after_exit(int local_rank, Instant now, std::vector<Effect>& out);
    void count(Instant now, std::vector<Effect>& out);
    void on_counted(int count, Instant now, std::vector<Effect>& out);
    void on_deadline(Instant now, std::vector<Effect>& out);
    void kill_all(Instant now, std::vector<Effect>& out);
    /// Each worker is gone or held.
    bool is_settled() const { return gone_count_ + static_cast<int>(held_.size()) == size(); }
    std::vector<int> living() const;
    void check() const;

    State state_ = State::starting;
    std::vector<Worker> workers_;
    /// By local rank: the state of the held workers.
    std::map<int, control::KeptWorker> held_;
    int gone_count_ = 0;
    int spawned_count_ = 0;
    /// When every process of this group is killed.
    std::optional<Instant> kill_at_;
    std::optional<Instant> count_at_;
    Duration count_pause_{};
    /// Of the last request that may hold workers.
    Duration hold_for_{};
    /// When processes that survive SIGKILL are reported.
    std::optional<Instant> stuck_at_;
    int leftover_count_ = 0;
    /// The signal that the leftovers get once, when the last leader has ended; none: it was sent,
    /// or no stop was requested.
    std::optional<int> signal_for_leftovers_;
    /// When leftovers that survived a signal other than SIGTERM get SIGTERM: a shell makes its
    /// background children ignore SIGINT and SIGQUIT.
    std::optional<Instant> terminate_at_;
};

std::string describe(const WorkerGroup::Event& event);
std::string describe(const WorkerGroup::Effect& effect);
std::string_view name_of(WorkerGroup::State state);

}  // namespace ddprun::agent
