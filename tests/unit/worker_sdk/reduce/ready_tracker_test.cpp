// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/bucket_plan.hpp"

#include <doctest/doctest.h>

using namespace ddprun;
using namespace ddprun::reduce;

namespace {

using Indices = std::vector<std::size_t>;

/// Buckets {4}, {3, 2}, {1, 0}.
ReadyTracker three_buckets() {
    std::vector<ParameterSpec> parameters;
    for (const char* name : {"a", "b", "c", "d", "e"})
        parameters.push_back({name, 16});
    Reducer::Options options;
    options.first_bucket_bytes = 64;
    options.bucket_bytes = 128;
    return ReadyTracker(plan_buckets(parameters, backward_order(parameters.size()), options));
}

}  // namespace

TEST_CASE("in the order of the backward pass each bucket is launched with its last gradient") {
    auto step = three_buckets();

    CHECK(step.mark(4) == Indices{0});
    CHECK(step.mark(3) == Indices{});
    CHECK(step.mark(2) == Indices{1});
    CHECK(step.mark(1) == Indices{});
    CHECK(step.mark(0) == Indices{2});
    CHECK(step.missing() == Indices{});
}

TEST_CASE("a bucket that fills early waits for those before it") {
    auto step = three_buckets();

    CHECK(step.mark(0) == Indices{});
    CHECK(step.mark(1) == Indices{});
    CHECK(step.mark(2) == Indices{});
    CHECK(step.mark(4) == Indices{0});
    CHECK(step.mark(3) == Indices{1, 2});
}

TEST_CASE("missing parameters are listed in their order") {
    auto step = three_buckets();

    step.mark(3);
    step.mark(1);

    CHECK(step.missing() == Indices{0, 2, 4});
    CHECK(step.is_marked(3));
    CHECK_FALSE(step.is_marked(2));
}

TEST_CASE("the next step starts from nothing") {
    auto step = three_buckets();
    step.mark(4);
    step.mark(3);
    CHECK(step.order() == Indices{4, 3});

    step.reset();

    CHECK(step.order() == Indices{});
    CHECK(step.missing() == Indices{0, 1, 2, 3, 4});
    CHECK(step.mark(4) == Indices{0});
    CHECK(step.mark(2) == Indices{});
    CHECK(step.mark(3) == Indices{1});
}
