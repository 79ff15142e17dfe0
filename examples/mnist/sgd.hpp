// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlp.hpp"
#include "run_state.hpp"

#include <cstddef>
#include <vector>

namespace mnist {

/// Gradient descent with momentum, as PyTorch's SGD does it: velocity = momentum * velocity +
/// gradient, parameter -= rate * velocity. The velocities of all parameters lie in one piece, so
/// that one broadcast sends them.
class Sgd {
public:
    explicit Sgd(float rate);

    void step(const Numbers& parameters, const Numbers& gradients);

    const Numbers& velocities() const { return views_; }
    float* data() { return memory_.data(); }
    std::size_t size() const { return memory_.size(); }

private:
    float rate_;
    std::vector<float> memory_;
    Numbers views_;
};

}  // namespace mnist
