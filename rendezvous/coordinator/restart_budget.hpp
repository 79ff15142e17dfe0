// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <deque>

namespace ddprun::coordinator {

/// How many failures of workers a job survives: one budget for the whole job. Lost nodes and
/// changes of membership do not touch it.
class RestartBudget {
public:
    explicit RestartBudget(int max) : max_(max) {}

    bool is_spent() const { return used_ >= max_; }
    /// Requires: not is_spent().
    void spend();

    int used() const { return used_; }
    int max() const { return max_; }

private:
    int used_ = 0;
    int max_ = 0;
};

/// Rounds that ended because a node was lost. Too many in one hour are a crash loop: something
/// kills nodes faster than the job gets anywhere.
class LossRecord {
public:
    explicit LossRecord(int max_losses) : max_losses_(max_losses) {}

    void add(Instant now);
    bool is_crash_loop() const { return static_cast<int>(lost_at_.size()) > max_losses_; }
    int max_losses() const { return max_losses_; }

private:
    std::deque<Instant> lost_at_;
    int max_losses_ = 0;
};

}  // namespace ddprun::coordinator
