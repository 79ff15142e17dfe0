// SPDX-License-Identifier: Apache-2.0
#include "agent/channel/progress_pace.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>

namespace ddprun::agent::channel {

std::optional<control::NodeProgress> ProgressPace::on_read(
    const std::vector<ReadProgress>& read, bool is_last, Instant now) {
    std::vector<control::RankProgress> ranks;
    Instant last{};
    for (const auto& one : read) {
        ranks.push_back(one.rank);
        const auto* before = known(one.rank.local_rank);
        if (before == nullptr || *before != one.rank.progress) last = std::max(last, one.at);
    }
    if (ranks == passed_on_) return std::nullopt;
    const bool is_due = !passed_on_at_ || now - *passed_on_at_ >= limits::progress_interval;
    if (!is_due && !is_last && !is_urgent(read)) return std::nullopt;
    passed_on_ = ranks;
    passed_on_at_ = now;
    // The worker's value may be arbitrary.
    const auto age = std::clamp(now - last, Duration{}, limits::longest_progress_age);
    return control::NodeProgress{0, std::move(ranks), age};
}

bool ProgressPace::is_urgent(const std::vector<ReadProgress>& read) const {
    return std::any_of(read.begin(), read.end(), [&](const ReadProgress& one) {
        const auto* before = known(one.rank.local_rank);
        return is_urgent(before ? *before : control::WorkProgress{}, one.rank.progress);
    });
}

bool ProgressPace::is_urgent(
    const control::WorkProgress& before, const control::WorkProgress& now) const {
    const auto is_saving = [](const control::WorkProgress& progress) {
        return progress.phase == control::WorkPhase::save;
    };
    const auto is_new = [&](const control::WorkProgress& progress) {
        return progress.step && (!done_step_ || *progress.step > *done_step_);
    };
    return before.step.has_value() != now.step.has_value() || is_saving(before) != is_saving(now) ||
           is_new(before) != is_new(now);
}

const control::WorkProgress* ProgressPace::known(int local_rank) const {
    for (const auto& rank : passed_on_)
        if (rank.local_rank == local_rank) return &rank.progress;
    return nullptr;
}

}  // namespace ddprun::agent::channel
