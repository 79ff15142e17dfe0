// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/timeline.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
bool Timeline::is_in(int number) const {
    return !rounds_.empty() && !rounds_.back().end && rounds_.back().number == number;
}

void Timeline::begin_round(int number, const control::Goodput& totals) {
    if (!rounds_.empty() && !rounds_.back().end) end_round({}, totals);
    if (rounds_.size() == max_rounds) fold_oldest();
    rounds_.push_back({number, totals, {}, 0, std::nullopt});
    phase_.reset();
}

void Timeline::reach(control::GoodputPhase phase) {
    if (rounds_.empty() || rounds_.back().end || phase == phase_) return;
    auto& round = rounds_.back();
    if (phase_) ++round.changes;
    phase_ = phase;
    if (std::find(round.phases.begin(), round.phases.end(), phase) == round.phases.end())
        round.phases.push_back(phase);
}

void Timeline::end_round(End end, const control::Goodput& totals) {
    if (rounds_.empty() || rounds_.back().end) return;
    if (end.root_cause.size() > max_text_bytes)
        end.root_cause = std::string{beginning_of(end.root_cause, max_text_bytes)} + "...";
    rounds_.back().end = {std::move(end), totals};
}

/// The oldest of several rounds has ended.
void Timeline::fold_oldest() {
    const auto& oldest = rounds_.front();
    const auto spent = oldest.spent();
    ++older_.count;
    for (std::size_t i = 0; i < spent.spent.size(); ++i)
        older_.spent.spent.at(i) += spent.spent.at(i);
    if (oldest.end && oldest.end->what.kind) ++older_.by_cause[*oldest.end->what.kind];
    rounds_.pop_front();
}

}  // namespace ddprun::coordinator
