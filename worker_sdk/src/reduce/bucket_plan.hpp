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
    /// In the order in which they are expected.
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

/// From the last parameter to the first.
std::vector<std::size_t> backward_order(std::size_t parameter_count);

/// Walks the parameters in `order` and closes a bucket as soon as it has reached its limit, as
/// PyTorch does: a bucket exceeds it by less than its last parameter. They lie in memory in that
/// order, each at a multiple of 64 bytes; the gaps stay zero. Elements are float.
BucketPlan plan_buckets(
    const std::vector<ParameterSpec>& parameters,
    const std::vector<std::size_t>& order,
    const Reducer::Options& options);

/// The same from the last parameter to the first, for memory that holds them from the first to the
/// last, without gaps.
BucketPlan plan_packed_buckets(
    const std::vector<ParameterSpec>& parameters, const Reducer::Options& options);

}  // namespace ddprun::reduce
