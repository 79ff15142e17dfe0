// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/worker.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <utility>

namespace ddprun::agent {

void Worker::handle(Event event, Instant now, std::vector<Effect>& out) {
    std::visit(
        Overloaded{
            [&](const Spawned& spawned) {
                require(state_ == State::starting, "a worker is spawned once");
                pid_ = spawned.pid;
                state_ = wanted_ == Wanted::alive ? State::running : State::stopping;
                if (wanted_ == Wanted::stopped) out.push_back(SignalLeader{signal_});
                if (wanted_ == Wanted::killed) out.push_back(KillSession{});
            },
            [&](Exited& exited) {
                require(state_ != State::gone, "a worker exits once");
                const bool had_started = state_ != State::starting;
                state_ = State::gone;
                exit_ = std::move(exited.exit);
                kill_at_.reset();
                if (had_started && wanted_ == Wanted::stopped)
                    out.push_back(SignalSession{signal_});
            },
            [&](const StopRequested& request) { request_stop(request, out); },
            [&](KillRequested) { kill(out); },
            [&](DeadlinePassed) {
                if (kill_at_ && now >= *kill_at_) kill(out);
            },
        },
        event);
    check();
}

void Worker::request_stop(const StopRequested& request, std::vector<Effect>& out) {
    // A second request can shorten the grace; it does not signal again.
    if (wanted_ == Wanted::killed) return;
    if (state_ != State::gone && (!kill_at_ || request.kill_at < *kill_at_))
        kill_at_ = request.kill_at;
    if (wanted_ == Wanted::stopped) return;
    wanted_ = Wanted::stopped;
    signal_ = request.signal;
    if (state_ == State::running) {
        state_ = State::stopping;
        out.push_back(SignalLeader{signal_});
    } else if (state_ == State::gone && pid_ != 0) {
        out.push_back(SignalSession{signal_});
    }
}

void Worker::kill(std::vector<Effect>& out) {
    kill_at_.reset();
    if (state_ == State::gone || wanted_ == Wanted::killed) return;
    wanted_ = Wanted::killed;
    if (state_ == State::starting) return;
    state_ = State::stopping;
    out.push_back(KillSession{});
}

std::optional<Instant> Worker::next_deadline() const {
    return kill_at_;
}

void Worker::check() const {
    require((state_ == State::gone) == exit_.has_value(), "a worker that is gone has an exit");
    require(state_ != State::gone || !kill_at_, "a worker that is gone has no deadline");
    require(
        state_ != State::stopping || wanted_ != Wanted::alive, "a worker stops when it was asked");
}

std::string describe(const Worker::Event& event) {
    return std::visit(
        Overloaded{
            [](const Worker::Spawned& e) { return "spawned pid=" + std::to_string(e.pid); },
            [](const Worker::Exited& e) { return e.exit.describe(); },
            [](const Worker::StopRequested& e) {
                return "stop requested with " + signal_name(e.signal);
            },
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
        },
        effect);
}

}  // namespace ddprun::agent
