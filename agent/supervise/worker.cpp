// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/worker.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::agent {

void Worker::handle(Event event, Instant now, std::vector<Effect>& out) {
    std::visit(
        Overloaded{
            [&](const Spawned& spawned) {
                require(state_ == State::starting, "a worker is spawned once");
                pid_ = spawned.pid;
                state_ = wanted_ == Wanted::alive ? State::running : State::stopping;
                signal_if_due(now, out);
                if (wanted_ == Wanted::killed) out.push_back(KillSession{});
            },
            [&](Exited& exited) {
                require(state_ != State::gone, "a worker exits once");
                const bool had_started = state_ != State::starting;
                state_ = State::gone;
                exit_ = std::move(exited.exit);
                signal_at_.reset();
                kill_at_.reset();
                hold_.reset();
                if (had_started && wanted_ == Wanted::stopped)
                    out.push_back(SignalSession{signal_});
            },
            [&](const StopRequested& request) { request_stop(request, now, out); },
            [&](const Recoverable& recoverable) {
                is_recoverable_ = recoverable.is_recoverable;
                if (is_recoverable_ || !hold_) return;
                if (state_ == State::holding) return stop_instead(now, out);
                // Nothing would reach it any more. It counts as held until it is gone.
                out.push_back(KillSession{});
            },
            [&](const HoldRequested& request) { request_hold(request, now, out); },
            [&](Held) {
                if (state_ == State::holding) state_ = State::held;
            },
            [&](KillRequested) { kill(out); },
            [&](DeadlinePassed) {
                if (state_ == State::holding && now >= hold_->until) stop_instead(now, out);
                signal_if_due(now, out);
                if (kill_at_ && now >= *kill_at_) kill(out);
            },
        },
        event);
    check();
}

void Worker::request_stop(const StopRequested& request, Instant now, std::vector<Effect>& out) {
    // A second request can shorten the grace and the wait for another process's signal; it does not
    // signal again.
    if (wanted_ == Wanted::killed) return;
    if (state_ != State::gone && (!kill_at_ || request.kill_at < *kill_at_))
        kill_at_ = request.kill_at;
    if (wanted_ == Wanted::stopped) {
        if (!request.signal_at)
            signal_at_.reset();
        else if (signal_at_)
            signal_at_ = std::min(*signal_at_, *request.signal_at);
        return signal_if_due(now, out);
    }
    wanted_ = Wanted::stopped;
    hold_.reset();
    signal_ = request.signal;
    if (state_ == State::gone) {
        if (pid_ != 0 && request.signal_at) out.push_back(SignalSession{signal_});
        return;
    }
    // A process that is just being started may have missed another process's signal, so it is
    // signalled in any case.
    signal_at_ = state_ == State::starting ? request.signal_at.value_or(now) : request.signal_at;
    if (state_ != State::starting) state_ = State::stopping;
    signal_if_due(now, out);
}

void Worker::request_hold(const HoldRequested& request, Instant now, std::vector<Effect>& out) {
    if (state_ == State::holding || state_ == State::held) return;
    if (!can_be_held())
        return request_stop({request.signal, now + request.grace, request.signal_at}, now, out);
    state_ = State::holding;
    hold_ = request;
    out.push_back(Hold{});
}

/// The worker cannot be held, or not in time.
void Worker::stop_instead(Instant now, std::vector<Effect>& out) {
    const auto request = *hold_;
    request_stop({request.signal, now + request.grace, now}, now, out);
}

void Worker::signal_if_due(Instant now, std::vector<Effect>& out) {
    if (state_ != State::stopping || !signal_at_ || now < *signal_at_) return;
    signal_at_.reset();
    out.push_back(SignalLeader{signal_});
}

void Worker::kill(std::vector<Effect>& out) {
    signal_at_.reset();
    kill_at_.reset();
    hold_.reset();
    if (state_ == State::gone || wanted_ == Wanted::killed) return;
    wanted_ = Wanted::killed;
    if (state_ == State::starting) return;
    state_ = State::stopping;
    out.push_back(KillSession{});
}

std::optional<Instant> Worker::next_deadline() const {
    if (state_ == State::holding) return hold_->until;
    return state_ == State::stopping ? earliest(kill_at_, signal_at_) : kill_at_;
}

void Worker::check() const {
    require((state_ == State::gone) == exit_.has_value(), "a worker that is gone has an exit");
    require(
        state_ != State::gone || (!kill_at_ && !signal_at_),
        "a worker that is gone has no deadline");
    require(
        state_ != State::stopping || wanted_ != Wanted::alive, "a worker stops when it was asked");
    require(
        (state_ == State::holding || state_ == State::held) == hold_.has_value(),
        "a worker is held when it was asked");
}

std::string describe(const Worker::Event& event) {
    return std::visit(
        Overloaded{
            [](const Worker::Spawned& e) { return "spawned pid=" + std::to_string(e.pid); },
            [](const Worker::Exited& e) { return e.exit.describe(); },
            [](const Worker::StopRequested& e) {
                return "stop requested with " + signal_name(e.signal) +
                       (e.signal_at ? "" : ", which it has");
            },
            [](const Worker::Recoverable& e) {
                return std::string{e.is_recoverable ? "recoverable" : "no longer recoverable"};
            },
            [](const Worker::HoldRequested& e) {
                return "hold requested, or else " + signal_name(e.signal);
            },
            [](Worker::Held) { return std::string{"held"}; },
            [](Worker::KillRequested) { return std::string{"kill requested"}; },
            [](Worker::DeadlinePassed) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const Worker::Effect& effect) {
    return std::visit(
        Overloaded{
            [](const Worker::SignalLeader& e) { return "signal leader " + signal_name(e.signal); },
            [](const Worker::SignalSession& e) {
                return "signal session " + signal_name(e.signal);
            },
            [](Worker::KillSession) { return std::string{"kill session"}; },
            [](Worker::Hold) { return std::string{"hold"}; },
        },
        effect);
}

}  // namespace ddprun::agent
