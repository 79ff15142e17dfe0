// SPDX-License-Identifier: Apache-2.0
#include "ddprun/optimizers.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

using namespace ddprun;

namespace {

constexpr std::size_t count = 133;

struct Numbers {
    Numbers() {
        for (std::size_t i = 0; i < count; ++i) {
            values.push_back(std::sin(static_cast<float>(i)));
            gradients.push_back(std::cos(static_cast<float>(i * 3)) * 10);
        }
    }
    std::vector<float> values, gradients;
    std::vector<float> first = std::vector<float>(count), second = std::vector<float>(count);
};

}  // namespace

TEST_CASE("SGD adds up gradients with momentum") {
    float value = 1, momentum = 0;
    const float gradient = 2;
    step_sgd(Sgd{0.5F}, 0.25F, &value, &momentum, &gradient, 1);
    CHECK(momentum == 2);
    CHECK(value == 0.5F);
    step_sgd(Sgd{0.5F}, 0.25F, &value, &momentum, &gradient, 1);
    CHECK(momentum == 3);
    CHECK(value == -0.25F);
}

TEST_CASE("AdamW's first step has the size of its rate, and values decay beside it") {
    float value = 2, without = 2, first = 0, second = 0;
    const float gradient = 5;
    AdamW optimizer;
    optimizer.decay = 0.1F;
    step_adam_w(optimizer, {0.01F, 1, true}, &value, &first, &second, &gradient, 1);
    first = second = 0;
    step_adam_w(optimizer, {0.01F, 1, false}, &without, &first, &second, &gradient, 1);
    CHECK(without == doctest::Approx(2 - 0.01));
    CHECK(value == doctest::Approx(2 * (1 - 0.01 * 0.1) - 0.01));
}

TEST_CASE("an update gives the same bits wherever an array is divided") {
    for (std::size_t cut = 0; cut <= count; ++cut) {
        Numbers whole, divided;
        for (std::int64_t number = 1; number <= 3; ++number) {
            const auto step = [&](Numbers& n, std::size_t begin, std::size_t end) {
                step_adam_w(
                    AdamW{},
                    {0.01F, number, true},
                    &n.values[begin],
                    &n.first[begin],
                    &n.second[begin],
                    &n.gradients[begin],
                    end - begin);
            };
            step(whole, 0, count);
            if (cut > 0) step(divided, 0, cut);
            if (cut < count) step(divided, cut, count);
        }
        CHECK(whole.values == divided.values);
    }
}
