// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlp.hpp"
#include "run_state.hpp"

#include <cstddef>
#include <vector>

namespace mnist {

/// Gradient descent with momentum, as PyTorch's SGD does it: velocity = momentum * velocity +
/// gradient, parameter -= rate * velocity.
class Sgd {
public:
    explicit Sgd(float rate);

    void step(const Numbers& parameters, const Numbers& gradients);

    const Numbers& velocities() const { return views_; }

private:
    float rate_;
    std::vector<float> memory_;
    Numbers views_;
};

}  // namespace mnist
