// SPDX-License-Identifier: Apache-2.0
#include "tests/examples/cifar/reference_net.hpp"

#include "examples/cifar/image_file.hpp"
#include "examples/mnist/random.hpp"

#include <doctest/doctest.h>

#include <cmath>

using reference::Numbers;

/// The GPU's results may be compared with the reference network only if this holds.
TEST_CASE("the reference network's gradients are the slopes of its loss") {
    // So small that finite differences for many parameters are affordable.
    cifar::Architecture net;
    net.units = {
        {"prep", 8, 8, 4, false, {}},
        {"layer1", 8, 8, 4, true, {}},
        {"residual1", 8, 8, 2, false, {}},
        {"residual2", 8, 8, 2, false, 1}};
    net.parameters.resize(13);
    mnist::Random random{7};
    const auto numbers = [&](std::size_t count, double around, double spread) {
        Numbers all;
        for (std::size_t i = 0; i < count; ++i)
            all.push_back(random.normal(spread) + around);
        return all;
    };
    std::vector<Numbers> parameters;
    for (std::size_t u = 0; u < net.units.size(); ++u) {
        parameters.push_back(numbers(8 * 9 * 8, 0, 0.2));
        parameters.push_back(numbers(8, 1, 0.2));
        parameters.push_back(numbers(8, 0, 0.2));
    }
    parameters.push_back(numbers(10 * 8, 0, 1));
    const auto pictures = numbers(3 * 4 * 4 * 8, 0, 1);
    const std::vector<std::uint8_t> labels{3, 0, 9};
    const auto pass = [&] {
        return reference::train(net, parameters, pictures, labels, reference::exact);
    };

    const auto gradients = pass().gradients;
    constexpr double step = 1e-6;
    for (std::size_t p = 0; p < parameters.size(); ++p)
        for (std::size_t i = 0; i < parameters[p].size(); i += 1 + parameters[p].size() / 20) {
            const double before = parameters[p][i];
            parameters[p][i] = before + step;
            const double above = pass().loss;
            parameters[p][i] = before - step;
            const double below = pass().loss;
            parameters[p][i] = before;
            const double slope = (above - below) / (2 * step);
            CAPTURE(p);
            CAPTURE(i);
            CHECK(std::abs(gradients[p][i] - slope) < 1e-6 + 1e-4 * std::abs(slope));
        }
}
