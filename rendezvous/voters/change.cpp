// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/change.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::voters {
namespace {

Verdict take(
    const Take& wanted, const Reading& reading, const Nonce& process, std::uint64_t counter) {
    auto next = reading.record;
    // Its own leadership has ended by its clock, or is an attempt whose answer was lost.
    const bool is_free = !next.leader || next.is_led_by(process) || reading.age >= next.ttl;
    if (!is_free) return {Outcome::held};
    const auto newest = std::max(next.epoch, wanted.known_epoch);
    if (newest >= limits::max_voted_number) return {Outcome::no_number_left};
    next.leader = Leader{wanted.name, wanted.address, process};
    next.epoch = newest + 1;
    next.ttl = wanted.ttl;
    next.counter = counter;
    return {Outcome::done, std::move(next)};
}

Verdict change_voters(const ChangeVoters& wanted, const Reading& reading) {
    auto next = reading.record;
    auto& set = next.voters;
    if (!set.is_joint() && set.voters == wanted.voters) return {};
    if (set.version >= limits::max_voted_number) return {Outcome::no_number_left};
    if (!set.is_joint()) {
        set = jointly(set, wanted.voters);
        return {Outcome::done, std::move(next), true};
    }
    // The voters before could still choose a record without the new ones. Writing it again, in a
    // ballot of its own, ends that.
    if (!reading.are_voters_chosen) return {Outcome::done, std::move(next), true};
    set = finished(set);
    const bool is_earlier_change = set.voters != wanted.voters;
    return {Outcome::done, std::move(next), is_earlier_change};
}

}  // namespace

Verdict judge(
    const Change& change, const Reading& reading, const Nonce& process, std::uint64_t counter) {
    const auto& record = reading.record;
    const auto leads = [&](std::uint64_t epoch) {
        return record.is_led_by(process) && record.epoch == epoch;
    };
    return std::visit(
        Overloaded{
            [](const Read&) { return Verdict{}; },
            [&](const Take& wanted) { return take(wanted, reading, process, counter); },
            [&](const Renew& wanted) {
                if (!leads(wanted.epoch)) return Verdict{Outcome::not_leader};
                auto next = record;
                next.counter = counter;
                return Verdict{Outcome::done, std::move(next)};
            },
            [&](const ChangeVoters& wanted) {
                if (!leads(wanted.epoch)) return Verdict{Outcome::not_leader};
                return change_voters(wanted, reading);
            },
            [&](const RecordEnd& wanted) {
                if (!leads(wanted.epoch)) return Verdict{Outcome::not_leader};
                if (record.ends == wanted.ends) return Verdict{};
                auto next = record;
                next.ends = wanted.ends;
                return Verdict{Outcome::done, std::move(next)};
            },
            [&](const StepDown& wanted) {
                if (!leads(wanted.epoch)) return Verdict{Outcome::not_leader};
                auto next = record;
                next.leader.reset();
                return Verdict{Outcome::done, std::move(next)};
            },
        },
        change);
}

std::string problem_of(const Change& change) {
    if (const auto* wanted = std::get_if<Take>(&change)) {
        if (wanted->ttl <= Duration::zero() || wanted->ttl > limits::longest_lease)
            return "a ttl above 0 and of at most a day";
        return problem_of(Leader{wanted->name, wanted->address, {}});
    }
    if (const auto* wanted = std::get_if<ChangeVoters>(&change)) return problem_of(wanted->voters);
    if (const auto* wanted = std::get_if<RecordEnd>(&change))
        if (wanted->ends.size() > limits::max_end_record_bytes) return "ends that are too long";
    return {};
}

std::string describe(const Change& change) {
    const auto in = [](const char* what, std::uint64_t epoch) {
        return what + (" in epoch " + std::to_string(epoch));
    };
    return std::visit(
        Overloaded{
            [](const Read&) { return std::string{"read"}; },
            [](const Take& wanted) {
                return "take, above epoch " + std::to_string(wanted.known_epoch);
            },
            [&](const Renew& wanted) { return in("renew", wanted.epoch); },
            [&](const ChangeVoters& wanted) { return in("change the voters", wanted.epoch); },
            [&](const RecordEnd& wanted) { return in("record the end", wanted.epoch); },
            [&](const StepDown& wanted) { return in("step down", wanted.epoch); },
        },
        change);
}

std::string_view name_of(Outcome outcome) {
    switch (outcome) {
        case Outcome::done: return "done";
        case Outcome::held: return "held";
        case Outcome::not_leader: return "not_leader";
        case Outcome::no_number_left: return "no_number_left";
    }
    return {};
}

}  // namespace ddprun::voters
