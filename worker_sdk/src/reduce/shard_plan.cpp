// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/shard_plan.hpp"

#include "worker_sdk/src/reduce/norm.hpp"

#include <algorithm>

namespace ddprun::reduce {

namespace {

/// One cache line of floats, so that parts of two ranks never share one.
constexpr std::size_t part_alignment = 64 / sizeof(float);

std::size_t padded(std::size_t count, std::size_t ranks) {
    const auto unit = ranks * part_alignment;
    return (count + unit - 1) / unit * unit;
}

/// The elements of the parameter that are in the part.
Piece piece_of(
    std::size_t parameter, std::size_t count, std::size_t offset, const ShardPlan::Part& part) {
    const auto begin = std::clamp(part.offset, offset, offset + count);
    const auto end = std::clamp(part.offset + part.count, offset, offset + count);
    if (begin >= end) return {parameter, 0, 0, part.offset, part.place};
    return {parameter, begin - offset, end - begin, begin, part.place + (begin - part.offset)};
}

}  // namespace

BucketPlan pad_buckets(const BucketPlan& plan, std::size_t ranks) {
    auto extended = plan;
    std::size_t end = 0;
    for (auto& bucket : extended.buckets) {
        const auto moved = end - bucket.offset;
        for (const auto parameter : bucket.parameters)
            extended.offset_of[parameter] += moved;
        bucket.offset = end;
        bucket.count = padded(bucket.count, ranks);
        end += bucket.count;
    }
    extended.element_count = end;
    return extended;
}

ShardPlan plan_shards(
    const std::vector<ParameterSpec>& parameters,
    const Reducer::Options& options,
    std::size_t rank,
    std::size_t ranks) {
    ShardPlan plan;
    plan.flat =
        pad_buckets(plan_buckets(parameters, backward_order(parameters.size()), options), ranks);
    for (const auto& bucket : plan.flat.buckets) {
        const auto count = bucket.count / ranks;
        plan.parts.push_back({bucket.offset + rank * count, count, plan.element_count});
        plan.element_count += count;
    }
    for (std::size_t i = 0; i < parameters.size(); ++i)
        plan.pieces.push_back(piece_of(
            i, parameters[i].count, plan.flat.offset_of[i], plan.parts[plan.flat.bucket_of[i]]));
    return plan;
}

double sum_of_squares_by_rank(const BucketPlan& plan, std::size_t ranks, const float* gradients) {
    std::vector<double> sums(ranks);
    for (const auto& bucket : plan.buckets) {
        // Elements beyond the bucket's end count as zero.
        const auto part = padded(bucket.count, ranks) / ranks;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            const auto begin = std::min(rank * part, bucket.count);
            const auto count = std::min(part, bucket.count - begin);
            sums[rank] += sum_of_squares(gradients + bucket.offset + begin, count);
        }
    }
    return sum_in_order(sums);
}

double sum_in_order(const std::vector<double>& sums) {
    double sum = 0;
    for (const double one : sums)
        sum += one;
    return sum;
}

}  // namespace ddprun::reduce
