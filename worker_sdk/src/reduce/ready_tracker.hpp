// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/reduce/bucket_plan.hpp"

#include <cstddef>
#include <vector>

namespace ddprun::reduce {

/// Which gradients of this step are complete, and which buckets may therefore be launched. Buckets
/// come out strictly in order: one that fills early waits for those before it, because every rank
/// must launch the same sequence.
class ReadyTracker {
public:
    explicit ReadyTracker(const BucketPlan& plan);

    bool is_marked(std::size_t parameter) const { return marked_[parameter]; }

    /// Returns the buckets to launch now, in order. Requires: not marked in this step.
    std::vector<std::size_t> mark(std::size_t parameter);

    /// Parameters not marked in this step, in their order.
    std::vector<std::size_t> missing() const;

    /// Parameters marked in this step, in the order of the marks.
    const std::vector<std::size_t>& order() const { return order_; }

    /// Starts the next step.
    void reset();

private:
    std::vector<std::size_t> bucket_of_;
    std::vector<std::size_t> size_of_;     // by bucket: how many parameters
    std::vector<std::size_t> pending_of_;  // by bucket: how many are not marked
    std::vector<bool> marked_;
    std::vector<std::size_t> order_;
    std::size_t next_bucket_ = 0;
};

}  // namespace ddprun::reduce
