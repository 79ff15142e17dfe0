// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cifar {

/// A 3 by 3 convolution that keeps the size of its pictures, batch norm and ReLU. As requested, it
/// then takes the maximum of each 2 by 2 pixels, or adds the output of an earlier unit.
struct ConvUnit {
    std::string name;
    std::size_t inputs = 0;
    std::size_t outputs = 0;
    /// The width of the pictures that it convolves.
    std::size_t side = 0;
    bool pools = false;
    std::optional<std::size_t> adds;

    std::size_t output_side() const { return pools ? side / 2 : side; }
};

/// The values are in memory in the order of `shape`, with the last dimension varying fastest.
struct ParameterShape {
    std::string name;
    std::vector<std::uint64_t> shape;
    /// Weight decay is for weights, not for batch norm.
    bool decays = false;

    std::size_t count() const;
};

/// A residual net of eight convolutions and one linear layer, known as ResNet-9: about 94 % on
/// CIFAR-10 after two dozen epochs at a width of 64. Pictures are in memory pixel after pixel, with
/// all channels of a pixel together.
struct Architecture {
    std::vector<ConvUnit> units;
    /// The weights: for each unit the convolution's (outputs, 3, 3, inputs), then batch norm's
    /// weight and bias; finally the linear layer's weight, which has no bias.
    std::vector<ParameterShape> parameters;

    /// The inputs of the linear layer: the largest value of each channel of the last unit.
    std::size_t features() const { return units.back().outputs; }
};

/// Pictures have three channels; the others are zero, because tensor cores need eight.
inline constexpr std::size_t input_channels = 8;
/// The factor of the linear layer's scores; without it they begin too large to learn.
inline constexpr float score_scale = 0.125F;

constexpr bool is_width(std::size_t width) {
    return width == 8 || width == 16 || width == 32 || width == 64 || width == 128;
}

/// `width`: channels of the first convolution; the last has eight times as many. Requires:
/// is_width(width).
Architecture make_architecture(std::size_t width);

/// The indices in `parameters` of a unit's values.
constexpr std::size_t weight_of(std::size_t unit) {
    return 3 * unit;
}
constexpr std::size_t norm_weight_of(std::size_t unit) {
    return 3 * unit + 1;
}
constexpr std::size_t norm_bias_of(std::size_t unit) {
    return 3 * unit + 2;
}
inline std::size_t linear_of(const Architecture& architecture) {
    return architecture.parameters.size() - 1;
}

/// The initial values of a parameter: for weights uniform in +-1/sqrt(inputs of one output), and
/// zero for the channels that are always zero; for batch norm 1 and 0. Equal seeds give equal
/// values on every machine.
std::vector<float> initial_values(
    const Architecture& architecture, std::size_t parameter, std::uint64_t seed);

}  // namespace cifar
