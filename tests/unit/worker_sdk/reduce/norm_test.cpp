// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/norm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

using namespace ddprun::reduce;

TEST_CASE("the sum of squares is that of all numbers, whatever their count") {
    for (std::size_t count = 0; count < 40; ++count) {
        std::vector<float> values(count);
        std::iota(values.begin(), values.end(), 1.0F);
        const auto n = static_cast<double>(count);
        CHECK(sum_of_squares(values.data(), count) == n * (n + 1) * (2 * n + 1) / 6);
    }
}

TEST_CASE("squares that no float can hold are added up") {
    const std::vector<float> large(2, 1e30F);
    CHECK(sum_of_squares(large.data(), 2) == doctest::Approx(2e60));
    const std::vector<float> one_nan{1.0F, NAN};
    CHECK(std::isnan(sum_of_squares(one_nan.data(), 2)));
}

TEST_CASE("scaling multiplies each number") {
    std::vector<float> values{2, -4, 0};
    scale(values.data(), values.size(), 0.5F);
    CHECK(values == std::vector<float>{1, -2, 0});
}
