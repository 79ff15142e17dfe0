// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/progress_record.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/text.hpp"

#include <algorithm>

namespace ddprun::coordinator {
namespace {

bool is_failure(const control::Cause& cause) {
    return cause.kind == control::Cause::Kind::worker_failed;
}

/// The end of the process, and its message without numbers, which may be addresses, ports or
/// process ids. The rank and host are left out, so equal failures of different ranks have equal
/// texts.
std::string failure_text(const control::Cause& cause) {
    if (!cause.worker) return cause.reason;
    auto message = cause.worker->message;
    std::replace_if(
        message.begin(), message.end(), [](char c) { return c >= '0' && c <= '9'; }, '#');
    return control::describe(cause.worker->end) + ": " + message;
}

}  // namespace

void ProgressRecord::on_progress(
    std::span<const control::RankProgress> before, std::span<const control::RankProgress> now) {
    if (!limit_) return;
    for (const auto& [local_rank, worker] : now) {
        if (!worker.step) continue;
        round_.highest = std::max(round_.highest, worker.step);
        const auto earlier =
            std::find_if(before.begin(), before.end(), [rank = local_rank](const auto& one) {
                return one.local_rank == rank;
            });
        const bool is_known = earlier != before.end() && earlier->progress.step;
        round_.has_gone_back |= is_known && *worker.step < *earlier->progress.step;
    }
}

void ProgressRecord::restore_step(std::uint64_t step) {
    highest_of_earlier_ = std::max(highest_of_earlier_.value_or(0), step);
}

bool ProgressRecord::has_new_step() const {
    if (round_.has_gone_back) return true;
    return round_.highest && (!highest_of_earlier_ || *round_.highest > *highest_of_earlier_);
}

int ProgressRecord::count_after(Duration ran_for, const control::Cause& cause) const {
    if (has_new_step()) return 0;
    if (!is_failure(cause)) return count_;
    if (highest_of_earlier_) return count_ + 1;
    if (ran_for >= limits::short_round) return 0;
    return failure_text(cause) == last_failure_ ? count_ + 1 : 1;
}

void ProgressRecord::end_round(Duration ran_for, const control::Cause& cause) {
    if (!limit_) return;
    count_ = count_after(ran_for, cause);
    highest_of_earlier_ = std::max(highest_of_earlier_, round_.highest);
    if (is_failure(cause)) last_failure_ = failure_text(cause);
    round_ = {};
}

}  // namespace ddprun::coordinator
