// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/departures.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/coordinator/draining.hpp"
#include "rendezvous/coordinator/preemption.hpp"

#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace ddprun::coordinator {

void feed_silence(JobStep& step, Silence::Event event) {
    auto& job = step.job;
    std::vector<Silence::Effect> effects;
    job.silence.handle(std::move(event), step.now, effects);
    for (auto& effect : effects)
        std::visit(
            Overloaded{
                [&](const Silence::Lost& lost) {
                    lose(step, *job.members.find(lost.nonce), lost.how);
                },
                [&](const Silence::Ask& ask) {
                    step.send(*job.members.find(ask.witness), ask.question);
                },
                [&](Silence::Noted& noted) { step.note(std::move(noted.text)); },
                [&](Silence::Stale) { ++job.history.stale_count; },
            },
            effect);
}

void feed_round_to_silence(JobStep& step) {
    const auto& round = *step.job.round;
    // A recovered round may have places whose members are unknown; such a place has no seat.
    std::map<std::size_t, std::size_t> seat_of;
    for (const auto& [rank, place] : round.places.taken())
        seat_of.emplace(rank, seat_of.size());
    std::vector<Silence::Seat> seats;
    seats.reserve(seat_of.size());
    for (const auto& [rank, place] : round.places.taken()) {
        Silence::Seat seat{place.nonce, place.host, {}};
        for (const auto neighbour : place.neighbours)
            seat.neighbours.push_back(seat_of.at(neighbour));
        seats.push_back(std::move(seat));
    }
    feed_silence(step, Silence::RoundBegan{round.number, std::move(seats), round.is_recovered});
}

void restart_clocks(JobStep& step) {
    auto& job = step.job;
    feed_silence(step, Silence::WokenLate{});
    if (auto* recovering = std::get_if<Recovering>(&job.state))
        recovering->ends_at = step.now + job.lease();
    if (auto* forming = std::get_if<Forming>(&job.state)) {
        // Leaves time to handle nodes that connected while the process did not run.
        const auto soon = step.now + limits::reconnect_grace;
        forming->join_ends = std::max(forming->join_ends, soon);
        if (forming->replacement_ends)
            forming->replacement_ends = std::max(*forming->replacement_ends, soon);
        if (forming->last_call_ends)
            forming->last_call_ends = std::max(*forming->last_call_ends, soon);
    }
    for (auto* member : job.members.by_arrival())
        if (member->ready_by) member->ready_by = job.ready_by(*member, step.now);
}

void lose(JobStep& step, Member& member, const std::string& how) {
    auto& job = step.job;
    auto cause = node_cause(
        job,
        control::Cause::Kind::node_lost,
        member,
        "node " + member.name() + " was lost: " + how);
    if (member.is_connected) {
        if (!job.is<Over>()) step.send(member, control::Lost{cause.reason});
        step.out.push_back(Close{member.connection.connection, cause.reason});
        member.is_connected = false;
    }
    if (member.group_rank) job.holds.hosts.note_gone(member.host(), job.round->number, step.now);
    forget_notice(step, member);
    // In this state the member gets no `Stop`.
    member.become(Member::State::out);
    if (!member.is_leaving()) depart(step, member, std::move(cause));
    remove_member(step, member);
}

void depart(JobStep& step, const Member& member, control::Cause cause) {
    auto& job = step.job;
    const bool is_in_round = member.group_rank.has_value();
    const int signal = cause.signal != 0 ? cause.signal : SIGTERM;
    if (job.is<Over>()) return;
    if (job.is<Forming>()) {
        step.note(cause.reason);
        job.causes.last = std::move(cause);
        return;
    }
    if (!is_in_round) {
        if (job.is<Running>()) step.note(cause.reason);
        return;
    }
    if (!job.round->needs(member)) {
        if (!job.is<Running>()) return;
        job.round->place_of(member).is_gone = true;
        return on_gone_from_save(step, static_cast<std::size_t>(*member.group_rank));
    }
    auto* drain = job.drain();
    if (drain && drain->departure) return;
    if (job.is<Draining>()) step.note(cause.reason);
    if (!drain) drain = &stop_round(step, cause, signal);
    drain->departure = std::move(cause);
}

void remove_member(JobStep& step, Member& member) {
    feed_silence(step, Silence::Removed{member.nonce()});
    step.job.members.remove(Nonce{member.nonce()});
}

control::Cause node_cause(
    const JobData& job, control::Cause::Kind kind, const Member& member, std::string reason) {
    control::Cause cause;
    cause.kind = kind;
    cause.reason = std::move(reason);
    cause.host = member.host();
    cause.round = job.round ? job.round->number : -1;
    return cause;
}

}  // namespace ddprun::coordinator
