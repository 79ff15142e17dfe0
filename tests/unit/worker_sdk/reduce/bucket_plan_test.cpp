// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/bucket_plan.hpp"

#include <doctest/doctest.h>

using namespace ddprun;
using namespace ddprun::reduce;

namespace {

using Counts = std::vector<std::size_t>;

std::vector<ParameterSpec> parameters_of(const Counts& counts) {
    std::vector<ParameterSpec> parameters;
    for (const auto count : counts)
        parameters.push_back({"p" + std::to_string(parameters.size()), count});
    return parameters;
}

Reducer::Options limits(std::size_t first_bytes, std::size_t bytes) {
    Reducer::Options options;
    options.first_bucket_bytes = first_bytes;
    options.bucket_bytes = bytes;
    return options;
}

/// Parameters of these many floats, buckets of these many bytes.
BucketPlan plan(const Counts& counts, std::size_t first_bytes, std::size_t bytes) {
    return plan_buckets(
        parameters_of(counts), backward_order(counts.size()), limits(first_bytes, bytes));
}

}  // namespace

TEST_CASE("no parameters make no buckets") {
    CHECK(plan({}, 64, 64) == BucketPlan{});
}

TEST_CASE("parameters lie in memory from the last to the first, each on a cache line") {
    const auto flat = plan({1, 17, 16}, 1 << 20, 1 << 20);

    CHECK(flat.offset_of == std::vector<std::size_t>{48, 16, 0});
    CHECK(flat.element_count == 64);
    CHECK(flat.buckets == std::vector<Bucket>{{0, 64, {2, 1, 0}}});
}

TEST_CASE("a bucket is closed once it has reached its limit, the first one at its own") {
    const auto flat = plan({16, 16, 16, 16, 16}, 64, 128);

    CHECK(flat.buckets == std::vector<Bucket>{{0, 16, {4}}, {16, 32, {3, 2}}, {48, 32, {1, 0}}});
    CHECK(flat.bucket_of == std::vector<std::size_t>{2, 2, 1, 1, 0});
}

TEST_CASE("a parameter larger than a bucket joins the open one, or has one to itself") {
    CHECK(
        plan({16, 1600, 16}, 128, 128).buckets ==
        std::vector<Bucket>{{0, 1616, {2, 1}}, {1616, 16, {0}}});
    CHECK(
        plan({16, 1600, 16}, 64, 64).buckets ==
        std::vector<Bucket>{{0, 16, {2}}, {16, 1600, {1}}, {1616, 16, {0}}});
}

TEST_CASE("limits of zero give each parameter its bucket") {
    CHECK(plan({16, 16}, 0, 0).buckets == std::vector<Bucket>{{0, 16, {1}}, {16, 16, {0}}});
}

TEST_CASE("with an order of their own parameters lie and travel in that one") {
    const auto flat = plan_buckets(parameters_of({16, 32, 1, 16}), {2, 0, 3, 1}, limits(64, 128));

    CHECK(flat.offset_of == Counts{16, 48, 0, 32});
    CHECK(flat.buckets == std::vector<Bucket>{{0, 16, {2}}, {16, 32, {0, 3}}, {48, 32, {1}}});
}

TEST_CASE("packed parameters lie in their own order without gaps, and travel from the last") {
    const auto flat = plan_packed_buckets(parameters_of({5, 30, 1, 2}), limits(4, 128));

    CHECK(flat.offset_of == Counts{0, 5, 35, 36});
    CHECK(flat.element_count == 38);
    CHECK(flat.buckets == std::vector<Bucket>{{36, 2, {3}}, {0, 36, {2, 1, 0}}});
    CHECK(plan_packed_buckets({}, {}) == BucketPlan{});
}

TEST_CASE("the default limits are PyTorch's") {
    CHECK(Reducer::Options{}.first_bucket_bytes == 1024 * 1024);
    CHECK(Reducer::Options{}.bucket_bytes == 25 * 1024 * 1024);
}
