// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/communication_hook.hpp"

#include <utility>
#include <vector>

namespace ddprun::reduce {

/// The buckets of one step that were launched and not yet waited for. The destructor waits: the
/// memory is in use until each has ended.
class BucketsInFlight {
public:
    bool is_empty() const { return works_.empty() && finishes_.empty(); }

    void launch(
        const ProcessGroup& group, const CommunicationHook& hook, const GradientBucket& bucket) {
        if (hook)
            finishes_.push_back(hook(group, bucket));
        else if (group.size() > 1)  // for one rank the values are the average
            works_.push_back(group.all_reduce(bucket.data, bucket.count, Op::average));
    }

    /// Any other work of the step.
    void add(Work work) { works_.push_back(std::move(work)); }

    /// Waits in the order of launches. Throws the first error, after all have ended.
    void wait() {
        BucketsInFlight launched = std::exchange(*this, {});
        for (const auto& finish : launched.finishes_)
            if (finish) finish();
        for (auto& work : launched.works_)
            work.wait();
    }

private:
    std::vector<Work> works_;
    std::vector<FinishBucket> finishes_;
};

}  // namespace ddprun::reduce
