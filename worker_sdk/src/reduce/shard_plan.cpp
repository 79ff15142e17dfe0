// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/shard_plan.hpp"

#include <algorithm>

namespace ddprun::reduce {

namespace {

/// One cache line of floats: memory of two ranks' parts is never in the same one.
constexpr std::size_t part_alignment = 64 / sizeof(float);

/// The elements of the parameter that lie in the part.
Piece piece_of(
    std::size_t parameter, std::size_t count, std::size_t offset, const ShardPlan::Part& part) {
    const auto begin = std::clamp(part.offset, offset, offset + count);
    const auto end = std::clamp(part.offset + part.count, offset, offset + count);
    if (begin >= end) return {parameter, 0, 0, part.offset, part.place};
    return {parameter, begin - offset, end - begin, begin, part.place + (begin - part.offset)};
}

}  // namespace

BucketPlan pad_buckets(const BucketPlan& plan, std::size_t ranks) {
    const auto unit = ranks * part_alignment;
    auto padded = plan;
    std::size_t end = 0;
    for (auto& bucket : padded.buckets) {
        const auto moved = end - bucket.offset;
        for (const auto parameter : bucket.parameters)
            padded.offset_of[parameter] += moved;
        bucket.offset = end;
        bucket.count = (bucket.count + unit - 1) / unit * unit;
        end += bucket.count;
    }
    padded.element_count = end;
    return padded;
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

}  // namespace ddprun::reduce
