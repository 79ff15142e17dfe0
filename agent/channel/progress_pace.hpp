// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::agent::channel {

/// The progress in a worker's page, and since when it has been the same.
struct ReadProgress {
    control::RankProgress rank;
    Instant at{};
};

/// Decides when the progress of one round's workers is passed on. Changes that the server's ledger
/// depends on are passed on at once: a first step, the first step that no earlier round had done,
/// the begin and end of a save. Everything else waits for the next report, at most one per
/// `limits::progress_interval`. Pure.
class ProgressPace {
public:
    explicit ProgressPace(std::optional<std::uint64_t> done_step = std::nullopt)
        : done_step_(done_step) {}

    /// None: nothing is due. `is_last`: nothing more will be read for now.
    std::optional<control::NodeProgress> on_read(
        const std::vector<ReadProgress>& read, bool is_last, Instant now);

private:
    bool is_urgent(const std::vector<ReadProgress>& read) const;
    bool is_urgent(const control::WorkProgress& before, const control::WorkProgress& now) const;
    const control::WorkProgress* known(int local_rank) const;

    std::optional<std::uint64_t> done_step_;
    std::vector<control::RankProgress> passed_on_;
    std::optional<Instant> passed_on_at_;
};

}  // namespace ddprun::agent::channel
