// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/bucket_plan.hpp"

#include <algorithm>
#include <numeric>

namespace ddprun::reduce {

namespace {

/// One cache line of floats.
constexpr std::size_t alignment = 64 / sizeof(float);

std::size_t aligned(std::size_t count) {
    return (count + alignment - 1) / alignment * alignment;
}

/// Fills `buckets` and `bucket_of`; a bucket's parameters are adjacent, in either direction.
void close_buckets(
    BucketPlan& plan,
    const std::vector<std::size_t>& order,
    const std::vector<std::size_t>& sizes,
    const Reducer::Options& options) {
    plan.bucket_of.resize(order.size());
    bool is_open = false;
    for (const auto parameter : order) {
        if (!is_open) plan.buckets.push_back({plan.offset_of[parameter], 0, {}});
        auto& bucket = plan.buckets.back();
        bucket.offset = std::min(bucket.offset, plan.offset_of[parameter]);
        bucket.count += sizes[parameter];
        bucket.parameters.push_back(parameter);
        plan.bucket_of[parameter] = plan.buckets.size() - 1;

        const auto limit =
            plan.buckets.size() == 1 ? options.first_bucket_bytes : options.bucket_bytes;
        is_open = bucket.count * sizeof(float) < limit;
    }
}

}  // namespace

std::vector<std::size_t> backward_order(std::size_t parameter_count) {
    std::vector<std::size_t> order(parameter_count);
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    return order;
}

BucketPlan plan_buckets(
    const std::vector<ParameterSpec>& parameters,
    const std::vector<std::size_t>& order,
    const Reducer::Options& options) {
    BucketPlan plan;
    plan.offset_of.resize(parameters.size());
    std::vector<std::size_t> sizes(parameters.size());
    for (const auto parameter : order) {
        plan.offset_of[parameter] = plan.element_count;
        sizes[parameter] = aligned(parameters[parameter].count);
        plan.element_count += sizes[parameter];
    }
    close_buckets(plan, order, sizes, options);
    return plan;
}

BucketPlan plan_packed_buckets(
    const std::vector<ParameterSpec>& parameters, const Reducer::Options& options) {
    BucketPlan plan;
    std::vector<std::size_t> sizes;
    for (const auto& parameter : parameters) {
        plan.offset_of.push_back(plan.element_count);
        sizes.push_back(parameter.count);
        plan.element_count += parameter.count;
    }
    close_buckets(plan, backward_order(parameters.size()), sizes, options);
    return plan;
}

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
