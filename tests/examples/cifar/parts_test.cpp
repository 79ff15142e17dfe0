// SPDX-License-Identifier: Apache-2.0
// The parts of the CIFAR example that know of no GPU: the network's description, the learning rate,
// the painted pictures.
#include "examples/cifar/architecture.hpp"
#include "examples/cifar/picture_painter.hpp"
#include "examples/cifar/schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

TEST_CASE("each unit of the network takes what the one before it gives") {
    for (const auto width : {std::size_t{8}, std::size_t{64}, std::size_t{128}}) {
        const auto net = cifar::make_architecture(width);
        std::size_t channels = cifar::input_channels;
        std::size_t side = cifar::image_side;
        for (const auto& unit : net.units) {
            CHECK(unit.inputs == channels);
            CHECK(unit.side == side);
            if (unit.adds) {
                const auto& earlier = net.units[*unit.adds];
                CHECK(earlier.outputs == unit.outputs);
                CHECK(earlier.output_side() == unit.output_side());
            }
            channels = unit.outputs;
            side = unit.output_side();
        }
        CHECK(channels == 8 * width);
        CHECK(net.parameters[cifar::linear_of(net)].count() == 10 * net.features());
    }
}

TEST_CASE("parameters have names of their own, and the ones that weight decay is for") {
    const auto net = cifar::make_architecture(64);
    std::set<std::string> names;
    std::size_t count = 0;
    for (const auto& parameter : net.parameters) {
        names.insert(parameter.name);
        count += parameter.count();
        CHECK(parameter.decays == (parameter.shape.size() > 1));
    }
    CHECK(names.size() == net.parameters.size());
    // ResNet-9 has 6,573,120 in its literature; here the first convolution has eight channels.
    CHECK(count == 6'573'120 + 5 * 9 * 64);
    CHECK(net.parameters[cifar::weight_of(2)].name == "layer1.residual1.conv.weight");
    CHECK(net.parameters[cifar::norm_weight_of(2)].name == "layer1.residual1.norm.weight");
    CHECK(net.parameters[cifar::norm_bias_of(2)].name == "layer1.residual1.norm.bias");
}

TEST_CASE("weights begin within their bounds, channels that are no colour with nothing") {
    const auto net = cifar::make_architecture(16);
    const auto first = cifar::initial_values(net, cifar::weight_of(0), 1);
    const float bound = 1 / std::sqrt(27.0F);
    for (std::size_t i = 0; i < first.size(); ++i)
        CHECK((i % 8 < 3 ? std::abs(first[i]) <= bound && first[i] != 0 : first[i] == 0));
    CHECK(first == cifar::initial_values(net, cifar::weight_of(0), 1));
    CHECK(first != cifar::initial_values(net, cifar::weight_of(0), 2));
    for (const float value : cifar::initial_values(net, cifar::norm_weight_of(3), 1))
        CHECK(value == 1);
    for (const float value : cifar::initial_values(net, cifar::norm_bias_of(3), 1))
        CHECK(value == 0);
}

TEST_CASE("the learning rate rises for a fifth of the run and then falls to nothing") {
    using cifar::one_cycle;
    CHECK(one_cycle(0, 0.4F) == 0);
    CHECK(one_cycle(0.1, 0.4F) == doctest::Approx(0.2));
    CHECK(one_cycle(0.2, 0.4F) == doctest::Approx(0.4));
    CHECK(one_cycle(0.6, 0.4F) == doctest::Approx(0.2));
    CHECK(one_cycle(1, 0.4F) == 0);
    CHECK(one_cycle(1.5, 0.4F) == 0);
}

TEST_CASE("painted pictures are of all ten kinds and depend on seed, split and number alone") {
    using cifar::Split;
    const auto some = cifar::paint_pictures(300, Split::train, 1);
    std::array<int, cifar::class_count> kinds{};
    for (const auto label : some.labels)
        ++kinds[label];
    CHECK(*std::min_element(kinds.begin(), kinds.end()) > 5);

    const auto fewer = cifar::paint_pictures(20, Split::train, 1);
    CHECK(std::equal(fewer.pixels.begin(), fewer.pixels.end(), some.pixels.begin()));
    CHECK(cifar::paint_pictures(20, Split::test, 1).pixels != fewer.pixels);
    CHECK(cifar::paint_pictures(20, Split::train, 2).pixels != fewer.pixels);
}
