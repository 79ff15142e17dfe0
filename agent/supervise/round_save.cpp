// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/round_save.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ddprun::agent {

bool RoundSave::on_order(const control::SavePoint& save) {
    const bool is_newer =
        !point_ || std::tuple{save.ballot, save.state} > std::tuple{point_->ballot, point_->state};
    if (is_newer) point_ = save;
    return is_newer;
}

void RoundSave::on_shown(int ballot, std::vector<RankSave> ranks) {
    ranks_ = std::move(ranks);
    if (shown_ballot_ == ballot) return;
    shown_ballot_ = ballot;
    asked_when_shown_ = asked();
}

std::optional<std::uint64_t> RoundSave::asked() const {
    std::optional<std::uint64_t> highest;
    for (const auto& rank : ranks_)
        if (rank.asked) highest = std::max(highest.value_or(*rank.asked), *rank.asked);
    return highest;
}

RankSave RoundSave::of(int local_rank) const {
    const auto found = std::find_if(ranks_.begin(), ranks_.end(), [&](const RankSave& rank) {
        return rank.local_rank == local_rank;
    });
    return found == ranks_.end() ? RankSave{local_rank} : *found;
}

std::optional<control::SaveReport> RoundSave::report(int round, const WorkerGroup& group) const {
    using Answer = RankSave::Answer;
    const bool is_asked = point_ && shown_ballot_ == point_->ballot &&
                          (point_->state == control::SaveState::proposed ||
                           point_->state == control::SaveState::agreed);
    if (!is_asked) return std::nullopt;
    control::SaveReport report;
    report.round = round;
    report.ballot = point_->ballot;
    report.asked = asked_when_shown_;
    for (int local_rank = 0; local_rank < group.size(); ++local_rank) {
        const auto rank = of(local_rank);
        const auto& exit = group.worker(local_rank).exit();
        const bool has_ended = exit && exit->is_success();
        // A rank that has ended cannot save again for a later ballot, so its last answer counts.
        const bool counts = has_ended || rank.ballot == point_->ballot;
        const bool is_saving =
            counts && (rank.answer == Answer::saving || rank.answer == Answer::saved);
        const bool has_saved = is_saving && (has_ended || rank.answer == Answer::saved);
        if (is_saving) {
            ++report.saving;
            report.least = std::min(report.least.value_or(rank.step), rank.step);
            report.most = std::max(report.most.value_or(rank.step), rank.step);
        }
        if (has_saved) ++report.saved;
        if (has_ended && !has_saved) ++report.ended;
        if (!has_ended && counts && rank.answer == Answer::declined) ++report.declined;
        const bool is_silent = !rank.asked;
        // A rank that may never call `should_save` is named first.
        const bool is_named = report.waiting && (report.is_silent || !is_silent);
        if (has_saved || has_ended || is_named) continue;
        report.waiting = local_rank;
        report.is_silent = is_silent;
    }
    return report;
}

}  // namespace ddprun::agent
