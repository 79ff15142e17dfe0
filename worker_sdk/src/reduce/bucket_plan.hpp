// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/reducer.hpp"

#include <cstddef>
#include <vector>

namespace ddprun::reduce {

/// A run of flat memory that is reduced in one collective, in elements.
struct Bucket {
    std::size_t offset = 0;
    std::size_t count = 0;
    /// In the order in which they lie in memory.
    std::vector<std::size_t> parameters;

    bool operator==(const Bucket&) const = default;
};

/// Where each parameter lies in flat memory, and which buckets that makes. Depends on specs and
/// options alone, so all ranks have the same.
struct BucketPlan {
    std::vector<Bucket> buckets;
    std::vector<std::size_t> offset_of;  ///< by parameter, in elements
    std::vector<std::size_t> bucket_of;  ///< by parameter
    std::size_t element_count = 0;       ///< of the whole memory, gaps included

    bool operator==(const BucketPlan&) const = default;
};

/// Walks the parameters from the last to the first and closes a bucket as soon as it has reached
/// its limit, as PyTorch does: a bucket exceeds it by less than its last parameter. Each parameter
/// starts at a multiple of 64 bytes; the gaps stay zero. Elements are float.
BucketPlan plan_buckets(
    const std::vector<ParameterSpec>& parameters, const Reducer::Options& options);

}  // namespace ddprun::reduce
