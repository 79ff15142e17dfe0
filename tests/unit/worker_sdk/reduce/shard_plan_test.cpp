// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/shard_plan.hpp"

#include "worker_sdk/src/reduce/norm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::reduce;

namespace {

std::vector<ParameterSpec> parameters_of(const std::vector<std::size_t>& counts) {
    std::vector<ParameterSpec> parameters;
    for (const auto count : counts)
        parameters.push_back({"p" + std::to_string(parameters.size()), count});
    return parameters;
}

Reducer::Options limits(std::size_t bytes) {
    Reducer::Options options;
    options.first_bucket_bytes = bytes;
    options.bucket_bytes = bytes;
    return options;
}

}  // namespace

TEST_CASE("for one rank a shard is everything, in the buckets of a Reducer") {
    const auto parameters = parameters_of({16, 17, 1});
    const auto plan = plan_shards(parameters, limits(64), 0, 1);
    CHECK(plan.flat == plan_buckets(parameters, backward_order(3), limits(64)));
    CHECK(plan.element_count == plan.flat.element_count);
    for (std::size_t i = 0; i < parameters.size(); ++i)
        CHECK(plan.pieces[i].count == parameters[i].count);
}

TEST_CASE("buckets are extended until they have a part for each rank, and parameters move along") {
    const auto plan = plan_shards(parameters_of({16, 17}), limits(64), 1, 3);
    CHECK(plan.flat.buckets == std::vector<Bucket>{{0, 48, {1}}, {48, 48, {0}}});
    CHECK(plan.flat.offset_of == std::vector<std::size_t>{48, 0});
    CHECK(plan.flat.element_count == 96);
    CHECK(plan.parts == std::vector<ShardPlan::Part>{{16, 16, 0}, {64, 16, 16}});
    // The second part of the first bucket has the last of p1's elements, and p0 is rank 0's.
    CHECK(plan.pieces[1] == Piece{1, 16, 1, 16, 0});
    CHECK(plan.pieces[0].count == 0);
}

TEST_CASE(
    "each element of each parameter is in the shard of one rank, at the place of its gradient") {
    for (const std::size_t ranks : {1U, 2U, 3U, 4U, 7U})
        for (const std::size_t bytes : {64U, 512U, 1U << 20U}) {
            const auto parameters = parameters_of({1, 1001, 17, 4099, 3, 64, 31});
            std::vector<std::vector<int>> owners;
            for (const auto& parameter : parameters)
                owners.emplace_back(parameter.count, 0);
            std::size_t elements = 0;
            for (std::size_t rank = 0; rank < ranks; ++rank) {
                const auto plan = plan_shards(parameters, limits(bytes), rank, ranks);
                elements += plan.element_count;
                for (const auto& piece : plan.pieces) {
                    const auto& part = plan.parts[plan.flat.bucket_of[piece.parameter]];
                    CHECK(piece.place - part.place == piece.offset - part.offset);
                    CHECK(piece.place + piece.count <= plan.element_count);
                    if (piece.count == 0) continue;
                    CHECK(piece.offset == plan.flat.offset_of[piece.parameter] + piece.begin);
                    for (auto i = piece.begin; i < piece.begin + piece.count; ++i)
                        ++owners[piece.parameter].at(i);
                }
            }
            for (const auto& parameter : owners)
                CHECK(parameter == std::vector<int>(parameter.size(), 1));
            CHECK(elements == plan_shards(parameters, limits(bytes), 0, ranks).flat.element_count);
        }
}

TEST_CASE("squares are added up in the same order whether a model is divided or not") {
    const auto parameters = parameters_of({1, 1001, 17, 4099, 3, 64, 31});
    for (const std::size_t ranks : {1U, 2U, 3U, 7U}) {
        const auto whole = plan_buckets(parameters, backward_order(7), limits(4096));
        std::vector<float> gradients(whole.element_count);
        std::vector<double> sums;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            const auto plan = plan_shards(parameters, limits(4096), rank, ranks);
            std::vector<float> flat(plan.flat.element_count);
            for (std::size_t p = 0; p < parameters.size(); ++p)
                for (std::size_t i = 0; i < parameters[p].count; ++i) {
                    const float value = std::sin(static_cast<float>(p * 5000 + i));
                    flat[plan.flat.offset_of[p] + i] = value;
                    gradients[whole.offset_of[p] + i] = value;
                }
            sums.push_back(0);
            for (const auto& part : plan.parts)
                sums.back() += sum_of_squares(flat.data() + part.offset, part.count);
        }
        CHECK(sum_in_order(sums) == sum_of_squares_by_rank(whole, ranks, gradients.data()));
    }
}
