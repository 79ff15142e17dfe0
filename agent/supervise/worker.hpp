// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/worker_exit.hpp"
#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::agent {

/// One worker process of one round: started, requested to stop, and killed if it does not stop.
///
///   starting --Spawned-->         running    (stop or kill wanted meanwhile: as below, at once)
///   running  --StopRequested-->   stopping   SignalLeader(signal) at signal_at, deadline kill_at
///   stopping --DeadlinePassed-->  stopping   KillSession
///   any      --KillRequested-->   stopping   KillSession
///   running  --HoldRequested, recoverable--> holding  Hold; until `until`, then as StopRequested
///   running  --HoldRequested-->   stopping   as StopRequested
///   holding  --Held-->            held
///   holding  --not recoverable--> stopping   as StopRequested
///   held     --not recoverable--> held       KillSession
///   holding, held --StopRequested--> stopping  SignalLeader(signal)
///   any      --Exited-->          gone       a stop was wanted: SignalSession(signal) to the rest
///   gone     --StopRequested-->   gone       SignalSession(signal) to the leader's leftovers
///
/// Only the leader is signalled while it lives, so that its data loaders are still alive when it
/// saves. Other processes of its session that live after `gone` are handled by WorkerGroup.
class Worker {
public:
    enum class State : std::uint8_t { starting, running, holding, held, stopping, gone };

    struct Spawned {
        int pid;
    };
    /// Also sent for a program that could not be executed.
    struct Exited {
        WorkerExit exit;
    };
    struct StopRequested {
        int signal;
        Instant kill_at;
        /// When to signal the leader. A later request without this time prevents the signal. None:
        /// another process has sent the signal already.
        std::optional<Instant> signal_at = Instant{};
    };
    /// The worker can, or can no longer, be held instead of stopped.
    struct Recoverable {
        bool is_recoverable;
    };
    /// The worker is held if it can be, until another group takes it over; otherwise it is stopped.
    struct HoldRequested {
        /// When a worker that is not held yet is stopped.
        Instant until;
        int signal;
        /// From the signal to SIGKILL.
        Duration grace;
        /// When to signal a worker that cannot be held, as in `StopRequested`.
        std::optional<Instant> signal_at = Instant{};
    };
    /// The worker waits for the next round.
    struct Held {};
    struct KillRequested {};
    struct DeadlinePassed {};
    using Event = std::variant<
        Spawned,
        Exited,
        StopRequested,
        Recoverable,
        HoldRequested,
        Held,
        KillRequested,
        DeadlinePassed>;

    /// SIGCONT follows: a stopped process would not handle the signal.
    struct SignalLeader {
        int signal;
        bool operator==(const SignalLeader&) const = default;
    };
    struct SignalSession {
        int signal;
        bool operator==(const SignalSession&) const = default;
    };
    /// Sends SIGKILL to the leader, its session and its descendants.
    struct KillSession {
        bool operator==(const KillSession&) const = default;
    };
    /// Orders the worker to end its part of the round and to wait for the next one.
    struct Hold {
        bool operator==(const Hold&) const = default;
    };
    using Effect = std::variant<SignalLeader, SignalSession, KillSession, Hold>;

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    State state() const { return state_; }
    bool is_gone() const { return state_ == State::gone; }
    bool is_held() const { return state_ == State::held; }
    /// It is held, or a request to hold it would not stop it at once.
    bool can_be_held() const {
        return hold_.has_value() || (state_ == State::running && is_recoverable_);
    }
    int pid() const { return pid_; }
    const std::optional<WorkerExit>& exit() const { return exit_; }

private:
    /// The strongest request so far, independent of the state of the process.
    enum class Wanted : std::uint8_t { alive, stopped, killed };

    void request_stop(const StopRequested& request, Instant now, std::vector<Effect>& out);
    void request_hold(const HoldRequested& request, Instant now, std::vector<Effect>& out);
    void stop_instead(Instant now, std::vector<Effect>& out);
    void signal_if_due(Instant now, std::vector<Effect>& out);
    void kill(std::vector<Effect>& out);
    void check() const;

    State state_ = State::starting;
    Wanted wanted_ = Wanted::alive;
    int pid_ = 0;
    int signal_ = 0;
    /// When to send the signal; none: it was sent, by this agent or another process.
    std::optional<Instant> signal_at_;
    std::optional<Instant> kill_at_;
    bool is_recoverable_ = false;
    /// Set while the worker is asked to hold, or is held.
    std::optional<HoldRequested> hold_;
    std::optional<WorkerExit> exit_;
};

std::string describe(const Worker::Event& event);
std::string describe(const Worker::Effect& effect);

}  // namespace ddprun::agent
