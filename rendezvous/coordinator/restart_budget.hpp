// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <algorithm>
#include <deque>

namespace ddprun::coordinator {

/// Counts how many failures of workers a job may still have: one budget for the whole job. Lost
/// nodes and changes of membership are not counted. Workers get the count of all restarts of the
/// job, so that the number never decreases when the budget is refilled.
class RestartBudget {
public:
    explicit RestartBudget(int max) : max_(max) {}

    bool is_spent() const { return used_ >= max_; }
    /// Requires: the budget is not spent.
    void spend();
    void refill() { used_ = 0; }
    /// Takes over the counts that a member reports after the server was restarted; the highest
    /// reported numbers count.
    void restore(int used, int total) {
        used_ = std::max(used_, std::min(used, max_));
        total_ = std::max(total_, total);
    }

    int used() const { return used_; }
    /// All restarts since the job began, not reset by a refill.
    int total() const { return total_; }
    int max() const { return max_; }

private:
    int used_ = 0;
    int max_ = 0;
    int total_ = 0;
};

/// The pause between a failure and the next round: each failure that follows quickly on the last
/// one doubles it. A round that ran as long as the longest pause was no quick failure.
class RestartDelay {
public:
    explicit RestartDelay(const control::RestartPolicy& policy)
        : shortest_(policy.shortest_delay),
          longest_(std::max(policy.shortest_delay, policy.longest_delay)),
          next_(shortest_) {}

    /// The pause after a round that ran this long.
    Duration next(Duration ran_for);

private:
    Duration shortest_;
    Duration longest_;
    Duration next_;
};

/// Rounds that ended because a node was lost. Too many in one hour are a crash loop: nodes are lost
/// faster than the job makes progress.
class LossRecord {
public:
    explicit LossRecord(int max_losses) : max_losses_(max_losses) {}

    void add(Instant now);
    /// Whether one more loss now would be a crash loop.
    bool would_be_crash_loop(Instant now) const;
    int max_losses() const { return max_losses_; }

private:
    std::deque<Instant> lost_at_;
    int max_losses_ = 0;
};

}  // namespace ddprun::coordinator
