// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/ready_tracker.hpp"

namespace ddprun::reduce {

ReadyTracker::ReadyTracker(const BucketPlan& plan)
    : bucket_of_(plan.bucket_of),
      marked_(plan.bucket_of.size()) {
    for (const auto& bucket : plan.buckets)
        size_of_.push_back(bucket.parameters.size());
    pending_of_ = size_of_;
}

std::vector<std::size_t> ReadyTracker::mark(std::size_t parameter) {
    marked_[parameter] = true;
    order_.push_back(parameter);
    --pending_of_[bucket_of_[parameter]];
    std::vector<std::size_t> launched;
    while (next_bucket_ < pending_of_.size() && pending_of_[next_bucket_] == 0)
        launched.push_back(next_bucket_++);
    return launched;
}

std::vector<std::size_t> ReadyTracker::missing() const {
    std::vector<std::size_t> parameters;
    for (std::size_t parameter = 0; parameter < marked_.size(); ++parameter)
        if (!marked_[parameter]) parameters.push_back(parameter);
    return parameters;
}

void ReadyTracker::reset() {
    marked_.assign(marked_.size(), false);
    pending_of_ = size_of_;
    order_.clear();
    next_bucket_ = 0;
}

}  // namespace ddprun::reduce
