// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "examples/cifar/architecture.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

/// The CIFAR example's network written down a second time, plainly, in double, on the CPU: what the
/// GPU's part is compared with. Tensors are pixel after pixel, all channels of one together.
namespace reference {

using Numbers = std::vector<double>;

/// The rounding of stored values: none, or to bfloat16.
using Kept = std::function<double(double)>;
double exact(double value);
double as_bfloat16(double value);

struct ConvShape {
    std::size_t count, side, inputs, outputs;
};
Numbers convolve(const ConvShape& shape, const Numbers& x, const Numbers& weight);
Numbers weight_gradient(const ConvShape& shape, const Numbers& x, const Numbers& dy);
Numbers input_gradient(const ConvShape& shape, const Numbers& weight, const Numbers& dy);

/// Batch norm of `x` (rows of `channels`) and ReLU.
struct Norm {
    Numbers mean, variance, inverse;
    /// Before and after weight and bias.
    Numbers normalised, shifted;
};
Norm norm_forward(const Numbers& x, const Numbers& weight, const Numbers& bias);
struct NormGradient {
    Numbers x, weight, bias;
};
/// `shifted_gradient`: the gradient of the loss by Norm::shifted.
NormGradient norm_backward(
    const Norm& norm, const Numbers& weight, const Numbers& shifted_gradient);

/// ReLU and, of each 2 by 2 pixels, the largest.
Numbers relu_pool(
    const Numbers& shifted, std::size_t count, std::size_t side, std::size_t channels);
/// The gradient by `shifted`.
Numbers relu_pool_backward(
    const Numbers& shifted,
    const Numbers& dy,
    std::size_t count,
    std::size_t side,
    std::size_t channels);

struct Pass {
    double loss = 0;  // the mean
    std::size_t correct = 0;
    std::vector<Numbers> gradients;
    /// Of each unit.
    std::vector<Norm> norms;
};

/// Forward and backward over pictures of input_channels channels.
Pass train(
    const cifar::Architecture& architecture,
    const std::vector<Numbers>& parameters,
    const Numbers& pictures,
    const std::vector<std::uint8_t>& labels,
    const Kept& kept);

}  // namespace reference
