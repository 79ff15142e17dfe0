// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/reduce/bucket_plan.hpp"

#include <cstddef>
#include <vector>

namespace ddprun::reduce {

/// Consecutive elements of one parameter that a rank owns.
struct Piece {
    std::size_t parameter = 0;
    std::size_t begin = 0;   ///< in the parameter
    std::size_t count = 0;   ///< 0 when the rank owns nothing of the parameter
    std::size_t offset = 0;  ///< in flat memory
    std::size_t place = 0;   ///< in the rank's shard

    bool operator==(const Piece&) const = default;
};

/// The buckets of a model, each divided into one part for each rank, and what one rank owns.
struct ShardPlan {
    BucketPlan flat;
    /// By bucket: the start of the rank's part in flat memory, its length (the same on every rank),
    /// and its start in the rank's shard.
    struct Part {
        std::size_t offset = 0;
        std::size_t count = 0;
        std::size_t place = 0;

        bool operator==(const Part&) const = default;
    };
    std::vector<Part> parts;
    std::vector<Piece> pieces;      ///< one for each parameter
    std::size_t element_count = 0;  ///< of the rank's shard, gaps included

    bool operator==(const ShardPlan&) const = default;
};

/// The buckets of `plan_buckets`, each extended so that it has an equal part for each rank, of a
/// multiple of 64 bytes of floats. The flat memory ends with the last bucket's.
BucketPlan pad_buckets(const BucketPlan& plan, std::size_t ranks);

/// Depends on its arguments alone. Sizes of parts are the same for all ranks.
ShardPlan plan_shards(
    const std::vector<ParameterSpec>& parameters,
    const Reducer::Options& options,
    std::size_t rank,
    std::size_t ranks);

/// The sum of squares of a model's gradients, in the order of additions of ranks that each have a
/// part of each bucket: first a sum for each rank over its parts, bucket by bucket, then these sums
/// in the order of ranks. The bits equal those of such ranks when each parameter begins at a
/// multiple of 64 bytes.
double sum_of_squares_by_rank(const BucketPlan& plan, std::size_t ranks, const float* gradients);

/// The last step of `sum_of_squares_by_rank`.
double sum_in_order(const std::vector<double>& sums);

}  // namespace ddprun::reduce
