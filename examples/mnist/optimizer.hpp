// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "numbers.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace mnist {

enum class OptimizerKind { sgd, adam };

/// "sgd"
std::string name_of(OptimizerKind kind);
/// The names in checkpoints of the optimizer's state for each parameter.
std::vector<std::string> moments_of(OptimizerKind kind);

// PyTorch's defaults, except for the momentum.
inline constexpr float momentum = 0.9F;
inline constexpr float first_decay = 0.9F;
inline constexpr float second_decay = 0.999F;
inline constexpr float adam_epsilon = 1e-8F;

/// Gradient descent on the CPU, as PyTorch does it.
///
/// sgd: momentum = 0.9 * momentum + gradient, parameter -= rate * momentum. adam: averages of the
/// gradient and of its square, both corrected for their start at zero.
class Optimizer {
public:
    Optimizer(OptimizerKind kind, float rate);

    /// `number` counts the steps from 1, also over a restart.
    void step(const Numbers& parameters, const Numbers& gradients, std::uint64_t number);

    const std::vector<Moment>& moments() const { return moments_; }

private:
    void step_sgd(const Numbers& parameters, const Numbers& gradients);
    void step_adam(const Numbers& parameters, const Numbers& gradients, std::uint64_t number);

    OptimizerKind kind_;
    float rate_;
    std::vector<float> memory_;
    std::vector<Moment> moments_;
};

/// Allocates `moments` for the whole network, all zero, and returns where each parameter's values
/// are.
std::vector<Moment> laid_out(const std::vector<std::string>& moments, std::vector<float>& memory);

}  // namespace mnist
