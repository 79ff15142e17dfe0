// SPDX-License-Identifier: Apache-2.0
// Built with -O3 in every configuration, and without fused multiply-add: a compiler may fuse in the
// vectorized part of a loop but not in its tail, and then the bits would depend on an element's
// position.
#include "ddprun/optimizers.hpp"

#include <cmath>

namespace ddprun {

void step_sgd(
    const Sgd& optimizer,
    float rate,
    float* values,
    float* momentum,
    const float* gradients,
    std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        momentum[i] = optimizer.momentum * momentum[i] + gradients[i];
        values[i] -= rate * momentum[i];
    }
}

void step_adam_w(
    const AdamW& optimizer,
    const AdamWStep& step,
    float* values,
    float* first,
    float* second,
    const float* gradients,
    std::size_t count) {
    const auto [first_rate, second_rate, epsilon, decay] = optimizer;
    const float rate = step.rate;
    const float kept = step.decays ? 1 - rate * decay : 1;
    const auto steps = static_cast<float>(step.number);
    const float first_correction = 1 - std::pow(first_rate, steps);
    const float second_correction = 1 - std::pow(second_rate, steps);
    for (std::size_t i = 0; i < count; ++i) {
        first[i] = first_rate * first[i] + (1 - first_rate) * gradients[i];
        second[i] = second_rate * second[i] + (1 - second_rate) * gradients[i] * gradients[i];
        const float size = std::sqrt(second[i] / second_correction) + epsilon;
        values[i] = kept * values[i] - rate * (first[i] / first_correction) / size;
    }
}

}  // namespace ddprun
