// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// Updates of optimizers, element by element, in host memory. The new bits of an element depend on
/// its own numbers alone, not on its position: an array that is divided between ranks gets the same
/// bits as the whole array.
namespace ddprun {

/// momentum = 0.9 * momentum + gradient; value -= rate * momentum. As PyTorch's SGD without
/// dampening.
struct Sgd {
    float momentum = 0.9F;
};

/// PyTorch's AdamW: weight decay acts on the value directly, not through the gradient.
struct AdamW {
    /// The share of the running averages of gradients and squared gradients that a step keeps.
    float first_rate = 0.9F;
    float second_rate = 0.999F;
    float epsilon = 1e-8F;
    float decay = 0.01F;
};

/// The inputs of an AdamW step other than the gradients.
struct AdamWStep {
    float rate = 0;
    /// Counts the steps from 1, also over a restart.
    std::int64_t number = 1;
    /// Whether weight decay applies to these values.
    bool decays = true;
};

/// `momentum` is zero before the first step.
void step_sgd(
    const Sgd& optimizer,
    float rate,
    float* values,
    float* momentum,
    const float* gradients,
    std::size_t count);

/// `first` and `second` are zero before the first step.
void step_adam_w(
    const AdamW& optimizer,
    const AdamWStep& step,
    float* values,
    float* first,
    float* second,
    const float* gradients,
    std::size_t count);

}  // namespace ddprun
