// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/rank_save.hpp"
#include "agent/supervise/worker_group.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::agent {

/// A save in one round of this node: the save point for the node's ranks, and how far each rank has
/// got. Data of `NodeRound`.
class RoundSave {
public:
    /// True: the save point is newer than the previous one, and must be shown to the ranks.
    bool on_order(const control::SavePoint& save);
    /// The ranks can see the save point of this ballot; `ranks` is read after that.
    void on_shown(int ballot, std::vector<RankSave> ranks);
    void on_read(std::vector<RankSave> ranks) { ranks_ = std::move(ranks); }

    const std::optional<control::SavePoint>& point() const { return point_; }
    /// The highest step for which a rank has asked; none: no rank calls `should_save`.
    std::optional<std::uint64_t> asked() const;
    /// The report for the server; none until the ranks can see the save point.
    std::optional<control::SaveReport> report(int round, const WorkerGroup& group) const;

    /// The report that was sent last.
    std::optional<control::SaveReport> reported;

private:
    RankSave of(int local_rank) const;

    std::optional<control::SavePoint> point_;
    std::optional<int> shown_ballot_;
    /// The value of `asked()` when the ballot was shown.
    std::optional<std::uint64_t> asked_when_shown_;
    std::vector<RankSave> ranks_;
};

}  // namespace ddprun::agent
