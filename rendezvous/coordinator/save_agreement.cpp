// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/save_agreement.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace save_agreement {
namespace {

/// How far above the highest step the next proposal is. It is 1 for the first two attempts, since
/// ranks at the same step may all be about to pass the first proposal. Then it doubles, for ranks
/// whose steps are shorter than a ballot.
std::uint64_t margin(int attempt) {
    return attempt <= 2 ? 1 : std::uint64_t{1} << static_cast<unsigned>(attempt - 2);
}

/// Whether the report's numbers are consistent with each other and with `nproc`.
bool is_possible(const control::SaveReport& report, int nproc) {
    const bool has_steps = report.least && report.most;
    const bool has_none = !report.least && !report.most;
    if (report.saving > 0 ? !has_steps || *report.least > *report.most : !has_none) return false;
    return report.saved <= report.saving && report.declined <= nproc &&
           report.saving + report.ended <= nproc;
}

}  // namespace
}  // namespace save_agreement

SaveAgreement::SaveAgreement(
    std::map<std::size_t, Node> nodes,
    std::optional<std::uint64_t> asked,
    const std::optional<control::SavePoint>& known,
    Instant now)
    : nodes_(std::move(nodes)),
      asked_(asked),
      agreed_at_(now) {
    if (known && known->state == control::SaveState::agreed) {
        // Ranks may already have saved.
        point_ = *known;
        state_ = State::agreed;
        return;
    }
    point_.ballot = 0;
    if (known) point_ = *known;
    propose(now);
}

bool SaveAgreement::on_report(
    std::size_t group_rank, const control::SaveReport& report, Instant now) {
    const auto found = nodes_.find(group_rank);
    if (found == nodes_.end() || report.ballot != point_.ballot) return false;
    if (state_ == State::saved || state_ == State::failed) return false;
    if (!save_agreement::is_possible(report, found->second.nproc)) return false;
    found->second.report = report;
    if (report.asked) asked_ = std::max(asked_.value_or(*report.asked), *report.asked);

    const bool is_late = state_ == State::proposed && report.asked && *report.asked >= point_.step;
    if (is_late || report.declined > 0) {
        propose(now);
        return true;
    }
    return evaluate(now);
}

bool SaveAgreement::on_gone(std::size_t group_rank, Instant now) {
    const auto found = nodes_.find(group_rank);
    if (found == nodes_.end() || state_ == State::saved || state_ == State::failed) return false;
    auto& node = found->second;
    node.is_gone = true;
    if (!node.report) node.report.emplace();
    node.report->ended = node.nproc - node.report->saved;
    node.report->waiting.reset();
    return evaluate(now);
}

/// Called after a report.
bool SaveAgreement::evaluate(Instant now) {
    if (!has_all_reports()) return false;
    if (state_ == State::proposed) {
        ended_before_ = sum().ended;
        state_ = State::agreed;
        agreed_at_ = now;
        point_.state = control::SaveState::agreed;
        return true;
    }
    const auto all = sum();
    if (all.least != all.most) {
        fail(
            "ranks save different steps, " + std::to_string(*all.least) + " to " +
            std::to_string(*all.most) + ": each rank must call should_save with the same steps");
        return true;
    }
    if (all.saved == 0 || all.saved + all.ended < rank_count()) return false;
    if (all.ended > ended_before_) {
        fail(
            std::to_string(all.ended - ended_before_) +
            " of the ranks ended without a save of step " + std::to_string(point_.step));
        return true;
    }
    state_ = State::saved;
    saved_step_ = all.least.value_or(point_.step);
    return true;
}

void SaveAgreement::propose(Instant now) {
    ++attempt_;
    if (attempt_ > limits::most_save_attempts || point_.ballot >= limits::most_save_ballots)
        return fail(
            "no step was found that no rank had passed, in " + std::to_string(attempt_ - 1) +
            " attempts");
    // Ranks may have passed the step of the previous ballot.
    if (point_.ballot > 0) asked_ = std::max(asked_.value_or(point_.step), point_.step);
    if (asked_ && *asked_ >= limits::highest_save_step - limits::highest_save_margin)
        return fail("a rank asks for step " + std::to_string(*asked_));
    point_ = {
        point_.ballot + 1,
        asked_ ? *asked_ + save_agreement::margin(attempt_) : 0,
        control::SaveState::proposed};
    state_ = State::proposed;
    agreed_at_ = now;
    // The reports of ranks that have ended are kept, since those ranks cannot save again.
    for (auto& [group_rank, node] : nodes_)
        if (!node.is_gone) node.report.reset();
}

void SaveAgreement::fail(std::string why) {
    state_ = State::failed;
    failure_ = std::move(why);
}

bool SaveAgreement::has_all_reports() const {
    return std::all_of(
        nodes_.begin(), nodes_.end(), [](const auto& node) { return node.second.report; });
}

control::SaveReport SaveAgreement::sum() const {
    control::SaveReport all;
    for (const auto& [group_rank, node] : nodes_) {
        if (!node.report) continue;
        const auto& report = *node.report;
        all.saving += report.saving;
        all.saved += report.saved;
        all.ended += report.ended;
        if (report.least) all.least = std::min(all.least.value_or(*report.least), *report.least);
        if (report.most) all.most = std::max(all.most.value_or(*report.most), *report.most);
    }
    return all;
}

int SaveAgreement::saved_count() const {
    return sum().saved;
}

int SaveAgreement::rank_count() const {
    int count = 0;
    for (const auto& [group_rank, node] : nodes_)
        count += node.nproc;
    return count;
}

std::optional<SaveAgreement::Missing> SaveAgreement::silent() const {
    for (const auto& [group_rank, node] : nodes_) {
        const auto& report = node.report;
        if (!report || !report->waiting || !report->is_silent) continue;
        const int local_rank = *report->waiting;
        return Missing{group_rank, local_rank, node.rank_base + local_rank, false, false};
    }
    return std::nullopt;
}

std::optional<SaveAgreement::Missing> SaveAgreement::missing() const {
    for (const auto& [group_rank, node] : nodes_) {
        const auto& report = node.report;
        if (report && !report->waiting) continue;
        const int local_rank = report ? *report->waiting : 0;
        return Missing{
            group_rank,
            local_rank,
            node.rank_base + local_rank,
            report && !report->is_silent,
            !report};
    }
    return std::nullopt;
}

}  // namespace ddprun::coordinator
