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
    std::size_t count = 0;   ///< may be 0 of a parameter of which the rank owns nothing
    std::size_t offset = 0;  ///< in flat memory
    std::size_t place = 0;   ///< in the rank's shard

    bool operator==(const Piece&) const = default;
};

/// The buckets of a model, each divided into one part for each rank, and what one rank owns.
struct ShardPlan {
    BucketPlan flat;
    /// By bucket: where the rank's part of it begins in flat memory, how long it is (the same on
    /// every rank), and where it begins in the rank's shard.
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

/// Depends on its arguments alone. The sizes of parts do not depend on the rank.
ShardPlan plan_shards(
    const std::vector<ParameterSpec>& parameters,
    const Reducer::Options& options,
    std::size_t rank,
    std::size_t ranks);

/// The sum of squares of a model's gradients, added up as ranks do it that have a part of each
/// bucket: bucket by bucket what one rank would have, then these sums in the order of ranks. The
/// same bits as theirs where each parameter begins at a multiple of 64 bytes.
double sum_of_squares_by_rank(const BucketPlan& plan, std::size_t ranks, const float* gradients);

/// The last step of that.
double sum_in_order(const std::vector<double>& sums);

}  // namespace ddprun::reduce
