// SPDX-License-Identifier: Apache-2.0
#include "architecture.hpp"

#include "image_file.hpp"
#include "mnist/random.hpp"

#include <cmath>

namespace cifar {
namespace {

constexpr std::size_t filter_pixels = 9;

std::vector<ConvUnit> make_units(std::size_t width) {
    return {
        {"prep", input_channels, width, 32, false, {}},
        {"layer1", width, 2 * width, 32, true, {}},
        {"layer1.residual1", 2 * width, 2 * width, 16, false, {}},
        {"layer1.residual2", 2 * width, 2 * width, 16, false, 1},
        {"layer2", 2 * width, 4 * width, 16, true, {}},
        {"layer3", 4 * width, 8 * width, 8, true, {}},
        {"layer3.residual1", 8 * width, 8 * width, 4, false, {}},
        {"layer3.residual2", 8 * width, 8 * width, 4, false, 5}};
}

std::vector<ParameterShape> make_parameters(const std::vector<ConvUnit>& units) {
    std::vector<ParameterShape> all;
    for (const auto& unit : units) {
        all.push_back({unit.name + ".conv.weight", {unit.outputs, 3, 3, unit.inputs}, true});
        all.push_back({unit.name + ".norm.weight", {unit.outputs}, false});
        all.push_back({unit.name + ".norm.bias", {unit.outputs}, false});
    }
    all.push_back({"linear.weight", {class_count, units.back().outputs}, true});
    return all;
}

}  // namespace

std::size_t ParameterShape::count() const {
    std::size_t product = 1;
    for (const auto size : shape)
        product *= size;
    return product;
}

Architecture make_architecture(std::size_t width) {
    Architecture result;
    result.units = make_units(width);
    result.parameters = make_parameters(result.units);
    return result;
}

std::vector<float> initial_values(
    const Architecture& architecture, std::size_t parameter, std::uint64_t seed) {
    const auto& shape = architecture.parameters[parameter];
    std::vector<float> values(shape.count());
    if (shape.shape.size() == 1) {
        const bool is_weight = parameter % 3 == norm_weight_of(0);
        values.assign(values.size(), is_weight ? 1.0F : 0.0F);
        return values;
    }
    const std::size_t channels = shape.shape.back();
    const bool is_first = parameter == weight_of(0);
    const std::size_t real_channels = is_first ? 3 : channels;
    const std::size_t inputs =
        real_channels * (parameter == linear_of(architecture) ? 1 : filter_pixels);
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    mnist::Random random{mnist::seed_of({seed, parameter})};
    for (std::size_t i = 0; i < values.size(); ++i)
        if (i % channels < real_channels)
            values[i] = static_cast<float>(random.uniform(-bound, bound));
    return values;
}

}  // namespace cifar
