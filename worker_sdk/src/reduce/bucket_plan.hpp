// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/model_memory.hpp"
#include "ddprun/reducer.hpp"

#include <cstddef>
#include <vector>

namespace ddprun::reduce {

/// A range of flat memory that is reduced in one collective, in elements.
struct Bucket {
    std::size_t offset = 0;
    std::size_t count = 0;
    /// The parameters in the order in which they are expected.
    std::vector<std::size_t> parameters;

    bool operator==(const Bucket&) const = default;
};

/// The offset of each gradient in flat memory, and the resulting buckets. Depends on its arguments
/// alone, so all ranks have the same plan.
struct BucketPlan {
    std::vector<Bucket> buckets;
    std::vector<std::size_t> offset_of;  ///< by parameter, in elements
    std::vector<std::size_t> bucket_of;  ///< by parameter
    std::size_t element_count = 0;       ///< of the whole memory, gaps included

    bool operator==(const BucketPlan&) const = default;
};

/// All parameters, from the last to the first.
std::vector<std::size_t> backward_order(std::size_t parameter_count);

/// Walks the parameters in `order` and closes a bucket as soon as it has reached its limit, as
/// PyTorch does: a bucket exceeds the limit by less than its last parameter. Parameters lie in
/// memory in that order, each at a multiple of 64 bytes; the gaps stay zero. Elements are float.
BucketPlan plan_buckets(
    const std::vector<ParameterSpec>& parameters,
    const std::vector<std::size_t>& order,
    const Reducer::Options& options);

/// Like `plan_buckets` from the last parameter to the first, for memory in which the parameters lie
/// from the first to the last, without gaps.
BucketPlan plan_packed_buckets(
    const std::vector<ParameterSpec>& parameters, const Reducer::Options& options);

/// Which gradients of this step are complete, and which buckets may therefore be launched. Buckets
/// are launched strictly in order: one that fills early waits for those before it, because every
/// rank must launch the same sequence.
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
