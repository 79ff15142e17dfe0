// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/bucket_plan.hpp"

namespace ddprun::reduce {

namespace {

/// One cache line of floats.
constexpr std::size_t alignment = 64 / sizeof(float);

std::size_t aligned(std::size_t count) {
    return (count + alignment - 1) / alignment * alignment;
}

}  // namespace

BucketPlan plan_buckets(
    const std::vector<ParameterSpec>& parameters, const Reducer::Options& options) {
    BucketPlan plan;
    plan.offset_of.resize(parameters.size());
    plan.bucket_of.resize(parameters.size());
    bool is_open = false;
    for (std::size_t parameter = parameters.size(); parameter-- > 0;) {
        if (!is_open) plan.buckets.push_back({plan.element_count, 0, {}});
        auto& bucket = plan.buckets.back();
        plan.offset_of[parameter] = plan.element_count;
        plan.bucket_of[parameter] = plan.buckets.size() - 1;
        bucket.parameters.push_back(parameter);
        plan.element_count += aligned(parameters[parameter].count);
        bucket.count = plan.element_count - bucket.offset;

        const auto limit =
            plan.buckets.size() == 1 ? options.first_bucket_bytes : options.bucket_bytes;
        is_open = bucket.count * sizeof(float) < limit;
    }
    return plan;
}

}  // namespace ddprun::reduce
