// SPDX-License-Identifier: Apache-2.0
#include "examples/mnist/mlp.hpp"
#include "examples/mnist/optimizer.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

using namespace mnist;

namespace {

/// The network's first parameter after `optimizer` has processed these gradients.
float first_after(Optimizer optimizer, float start, std::initializer_list<float> slopes) {
    std::vector<float> parameter_memory;
    std::vector<float> gradient_memory;
    const auto parameters = laid_out({"parameters"}, parameter_memory)[0].values;
    const auto gradients = laid_out({"gradients"}, gradient_memory)[0].values;
    parameters[0][0] = start;
    std::uint64_t number = 0;
    for (const float slope : slopes) {
        gradients[0][0] = slope;
        optimizer.step(parameters, gradients, ++number);
    }
    return parameters[0][0];
}

}  // namespace

TEST_CASE("descent with momentum goes on in the direction it had") {
    const auto after = first_after({OptimizerKind::sgd, 0.1F}, 1, {1, 0, 0});
    CHECK(after == doctest::Approx(1 - 0.1 * (1 + 0.9 + 0.81)));
}

TEST_CASE("Adam's first step is as long as the rate, whatever the slope") {
    CHECK(first_after({OptimizerKind::adam, 0.1F}, 1, {0.001F}) == doctest::Approx(0.9));
    CHECK(first_after({OptimizerKind::adam, 0.1F}, 1, {-1000}) == doctest::Approx(1.1));
}

TEST_CASE("Adam's second step corrects both averages for their beginning") {
    const double mean = (0.9 * 0.1 * 2 + 0.1 * -1) / (1 - 0.9 * 0.9);
    const double square = (0.999 * 0.001 * 4 + 0.001 * 1) / (1 - 0.999 * 0.999);

    const auto after = first_after({OptimizerKind::adam, 0.01F}, 1, {2, -1});

    CHECK(after == doctest::Approx(1 - 0.01 - 0.01 * mean / std::sqrt(square)).epsilon(1e-6));
}

TEST_CASE("each optimizer keeps what its name says, for each parameter, zero at first") {
    for (const auto kind : {OptimizerKind::sgd, OptimizerKind::adam}) {
        const Optimizer optimizer{kind, 0.1F};
        REQUIRE(optimizer.moments().size() == moments_of(kind).size());
        for (const auto& moment : optimizer.moments()) {
            REQUIRE(moment.values.size() == Mlp::parameters().size());
            for (std::size_t p = 0; p < moment.values.size(); ++p)
                for (std::size_t i = 0; i < Mlp::parameters()[p].count(); ++i)
                    REQUIRE(moment.values[p][i] == 0.0F);
        }
    }
}
