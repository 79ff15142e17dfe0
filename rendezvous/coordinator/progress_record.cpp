// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/progress_record.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>

namespace ddprun::coordinator {
namespace {

/// Without its numbers, which may be addresses, ports or process ids. Which rank it was, and on
/// which host, is no difference.
std::string failure_text(const control::Cause& cause) {
    auto text = cause.worker ? cause.worker->message : cause.reason;
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }, '#');
    return text;
}

}  // namespace

int ProgressRecord::count_with(const Round& round) const {
    if (round.step && (!highest_step_ || *round.step > *highest_step_)) return 0;
    if (highest_step_) return count_ + 1;
    if (round.ran_for >= limits::short_round) return 0;
    return failure_text(round.cause) == last_failure_ ? count_ + 1 : 1;
}

void ProgressRecord::add(const Round& round) {
    count_ = count_with(round);
    if (round.step) highest_step_ = std::max(highest_step_.value_or(0), *round.step);
    last_failure_ = failure_text(round.cause);
}

void ProgressRecord::restore_step(std::uint64_t step) {
    highest_step_ = std::max(highest_step_.value_or(0), step);
}

}  // namespace ddprun::coordinator
