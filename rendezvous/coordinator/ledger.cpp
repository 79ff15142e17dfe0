// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/ledger.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>

namespace ddprun::coordinator {

using control::Goodput;
using control::GoodputPhase;

// ---- events -------------------------------------------------------------------------------------

void Ledger::enter(State state, int round, Instant now) {
    if (is_closed()) return;
    if (state == state_ && round == round_) return;
    close_interval(now);
    if (round != round_) begin_round(round);
    // During a hang the first step may still follow, so the time stays undecided.
    if (state != State::running && state != State::hung) decide(GoodputPhase::unmeasured);
    state_ = state;
}

void Ledger::on_report(std::size_t group_rank, const Report& report, Instant now) {
    if (is_closed()) return;
    // An event that happened before the interval began still belongs to this interval.
    close_interval(std::max(since_, now - std::min(report.age, limits::longest_progress_age)));
    auto& node = steps_.of_node[group_rank];
    const auto before = node.report.step;
    const bool is_set_back = before && report.step && *report.step < *before;
    if (is_set_back) {
        ++reset_count_;
        steps_.is_set_back |= does_new_steps();
    }
    move_count(steps_.counts, before, report.step);
    follow_save(node, report, is_set_back);
    node.report = report;
    if (!steps_.lowest()) return;
    if (!is_measured_) decide(GoodputPhase::first_step);
    is_measured_ = true;
}

void Ledger::restore(const Goodput& earlier, Duration age, Instant now) {
    const auto sum = earlier.sum();
    if (is_closed() || sum <= earlier_.sum()) return;
    if (age > limits::longest_restored_goodput - sum) return;
    earlier_ = earlier;
    // Time that this ledger has counted itself is not part of the gap between the two servers.
    earlier_gap_ = std::max(Duration{}, age - own_time(now));
}

void Ledger::restore_step(std::uint64_t step) {
    done_ = std::max(done_.value_or(0), step);
    is_measured_ = true;
}

// ---- answers ------------------------------------------------------------------------------------

Goodput Ledger::totals(Instant now) const {
    auto all = closed();
    all[GoodputPhase::unmeasured] += undecided_;
    if (!is_closed()) all[phase()] += now - since_;
    for (auto& length : all.spent)
        length = std::min(length, limits::longest_phase);
    return all;
}

Goodput Ledger::decided(Instant now) const {
    auto all = closed();
    if (is_closed() || phase() == GoodputPhase::unmeasured) return all;
    const auto margin = state_ == State::running ? limits::longest_progress_age : Duration{};
    all[phase()] += std::max(Duration{}, now - margin - since_);
    return all;
}

/// Excludes the interval that is still open.
Goodput Ledger::closed() const {
    auto all = spent_;
    for (std::size_t i = 0; i < all.spent.size(); ++i)
        all.spent.at(i) += earlier_.spent.at(i);
    all[GoodputPhase::down] += earlier_gap_;
    return all;
}

Duration Ledger::own_time(Instant now) const {
    return spent_.sum() + undecided_ + (is_closed() ? Duration{} : now - since_);
}

GoodputPhase Ledger::phase() const {
    switch (state_) {
        case State::down: return GoodputPhase::down;
        case State::forming: return GoodputPhase::forming;
        case State::starting: return GoodputPhase::starting;
        case State::hung: return GoodputPhase::hung;
        case State::draining: return GoodputPhase::draining;
        case State::running:
        case State::over: break;
    }
    if (steps_.is_saving()) return GoodputPhase::saving;
    const auto lowest = steps_.lowest();
    if (!is_measured_) return GoodputPhase::unmeasured;
    if (!lowest) return GoodputPhase::first_step;
    return does_new_steps() ? GoodputPhase::productive : GoodputPhase::redone;
}

std::optional<std::uint64_t> Ledger::step() const {
    const auto lowest = steps_.lowest();
    return lowest ? lowest : done_;
}

std::optional<std::uint64_t> Ledger::done_step() const {
    return does_new_steps() ? steps_.lowest() : done_;
}

bool Ledger::does_new_steps() const {
    const auto lowest = steps_.lowest();
    return lowest && (!done_ || *lowest > *done_ || steps_.is_set_back);
}

// ---- parts --------------------------------------------------------------------------------------

std::optional<std::uint64_t> Ledger::Steps::lowest() const {
    if (counts.empty()) return std::nullopt;
    return counts.begin()->first;
}

bool Ledger::Steps::is_saving() const {
    if (saves.empty()) return false;
    return counts.empty() || counts.begin()->first <= saves.rbegin()->first;
}

void Ledger::close_interval(Instant at) {
    require(at >= since_, "time does not go back");
    const auto length = at - since_;
    since_ = at;
    if (phase() == GoodputPhase::unmeasured)
        undecided_ += length;
    else
        spent_[phase()] += length;
}

void Ledger::decide(GoodputPhase phase) {
    spent_[phase] += undecided_;
    undecided_ = {};
}

void Ledger::begin_round(int round) {
    done_ = done_step();
    round_ = round;
    steps_ = {};
}

/// A save of ranks that report no steps counts as begun at the lowest step of the others.
void Ledger::follow_save(Node& node, const Report& report, bool is_set_back) {
    const auto before = node.save_began_at;
    if (!report.is_saving || is_set_back)
        node.save_began_at.reset();
    else if (!node.report.is_saving)
        node.save_began_at = report.saving_step.value_or(steps_.lowest().value_or(0));
    move_count(steps_.saves, before, node.save_began_at);
}

void Ledger::move_count(
    Counts& counts,
    const std::optional<std::uint64_t>& from,
    const std::optional<std::uint64_t>& to) {
    if (from) {
        const auto found = counts.find(*from);
        if (--found->second == 0) counts.erase(found);
    }
    if (to) ++counts[*to];
}

}  // namespace ddprun::coordinator
