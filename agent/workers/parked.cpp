// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/parked.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::agent {

void Parked::handle(Event event, Instant now, Effects& out) {
    std::visit(
        Overloaded{
            [&](WorkersStarted) { start_at_ = now + limits::parking_without_steps; },
            [&](StepSeen) {
                if (start_at_) start_at_ = std::min(*start_at_, now + limits::parking_after_step);
            },
            [&](RoundEnded) { start_at_.reset(); },
            [&](const Ready& e) {
                on_ready(e, out);
                start_next(now, out);
            },
            [&](Unfit& e) {
                if (slot(e.local_rank).state == State::importing)
                    turn_off(std::move(e.reason), out);
            },
            [&](const Ended& e) { on_ended(e, now, out); },
            [&](const TakeRequested& e) {
                auto& state = slot(e.local_rank).state;
                if (state == State::taken) {
                    // Its round has ended before it was settled.
                    state = free_state();
                    return out.push_back(Kill{e.local_rank});
                }
                if (state != State::parked) return;
                state = State::taken;
                out.push_back(HandOver{e.local_rank});
            },
            [&](const HandOverFailed& e) {
                if (slot(e.local_rank).state != State::taken) return;
                slot(e.local_rank).state = free_state();
                out.push_back(Kill{e.local_rank});
            },
            [&](const HandedOver& e) {
                if (slot(e.local_rank).state != State::taken) return;
                slot(e.local_rank).state = free_state();
                // Not reset earlier: a process that parks and is killed each time would be
                // restarted for ever.
                failure_count_ = 0;
            },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
}

void Parked::on_ready(const Ready& ready, Effects& out) {
    auto& own = slot(ready.local_rank);
    if (own.state != State::importing) return;
    own = {State::parked, ready.bytes};
    import_ends_at_.reset();
    if (count(State::parked) < slots_.size()) return;
    std::uint64_t bytes = 0;
    for (const auto& each : slots_)
        bytes += each.bytes;
    out.push_back(NoteParked{static_cast<int>(slots_.size()), bytes});
}

void Parked::on_ended(const Ended& ended, Instant now, Effects& out) {
    auto& own = slot(ended.local_rank);
    if (own.state != State::importing && own.state != State::parked) return;
    if (own.state == State::importing) import_ends_at_.reset();
    own.state = State::absent;
    if (ended.reason.empty()) return;
    if (++failure_count_ >= limits::max_parking_failures) return turn_off(ended.reason, out);
    if (start_at_) start_at_ = now + limits::parking_after_step;
}

void Parked::on_deadline(Instant now, Effects& out) {
    if (import_ends_at_ && now >= *import_ends_at_) {
        // The failure is counted when the process ends.
        import_ends_at_.reset();
        for (std::size_t i = 0; i < slots_.size(); ++i)
            if (slots_[i].state == State::importing) out.push_back(Kill{static_cast<int>(i)});
    }
    start_next(now, out);
}

/// Processes that are already parked can still be used once.
void Parked::turn_off(std::string reason, Effects& out) {
    import_ends_at_.reset();
    is_off_ = true;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        auto& state = slots_[i].state;
        if (state == State::parked || state == State::taken) continue;
        if (state == State::importing) out.push_back(Kill{static_cast<int>(i)});
        state = State::disqualified;
    }
    out.push_back(NoteOff{std::move(reason)});
}

void Parked::start_next(Instant now, Effects& out) {
    if (!start_at_ || now < *start_at_ || is_off_ || count(State::importing) > 0) return;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        if (slots_[i].state != State::absent) continue;
        slots_[i].state = State::importing;
        import_ends_at_ = now + limits::parking_timeout;
        return out.push_back(Start{static_cast<int>(i)});
    }
}

std::size_t Parked::count(State state) const {
    return static_cast<std::size_t>(std::count_if(
        slots_.begin(), slots_.end(), [&](const Slot& each) { return each.state == state; }));
}

std::optional<Instant> Parked::next_deadline() const {
    if (count(State::importing) > 0) return import_ends_at_;
    const bool is_wanted = count(State::absent) > 0 && !is_off_;
    return is_wanted ? start_at_ : std::nullopt;
}

std::string describe(const Parked::Event& event) {
    using P = Parked;
    const auto of = [](int local_rank) { return " local_rank=" + std::to_string(local_rank); };
    return std::visit(
        Overloaded{
            [](P::WorkersStarted) { return std::string{"workers started"}; },
            [](P::StepSeen) { return std::string{"step seen"}; },
            [](P::RoundEnded) { return std::string{"round ended"}; },
            [&](const P::Ready& e) { return "ready" + of(e.local_rank); },
            [&](const P::Unfit& e) { return "unfit" + of(e.local_rank) + ": " + e.reason; },
            [&](const P::Ended& e) { return "ended" + of(e.local_rank) + ": " + e.reason; },
            [&](const P::TakeRequested& e) { return "take requested" + of(e.local_rank); },
            [&](const P::HandedOver& e) { return "handed over" + of(e.local_rank); },
            [&](const P::HandOverFailed& e) { return "hand over failed" + of(e.local_rank); },
            [](P::DeadlinePassed) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const Parked::Effect& effect) {
    using P = Parked;
    return std::visit(
        Overloaded{
            [](const P::Start& e) { return "start " + std::to_string(e.local_rank); },
            [](const P::Kill& e) { return "kill " + std::to_string(e.local_rank); },
            [](const P::HandOver& e) { return "hand over " + std::to_string(e.local_rank); },
            [](const P::NoteParked& e) {
                return "note " + std::to_string(e.count) + " parked, " + std::to_string(e.bytes) +
                       " bytes";
            },
            [](const P::NoteOff& e) { return "note off: " + e.reason; },
        },
        effect);
}

}  // namespace ddprun::agent
