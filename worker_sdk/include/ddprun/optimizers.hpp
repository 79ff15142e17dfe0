// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// Updates of optimizers, element by element, in host memory. An element's new bits depend on its
/// own numbers alone, not on where in an array it is: an array that is divided between ranks gets
/// the bits of the whole one.
namespace ddprun {

/// momentum = 0.9 * momentum + gradient; value -= rate * momentum. As PyTorch's, without dampening.
struct Sgd {
    float momentum = 0.9F;
};

/// As PyTorch's: the value decays beside the step, not through the gradient.
struct AdamW {
    /// How much of the averages of gradients and of their squares remains in a step.
    float first_rate = 0.9F;
    float second_rate = 0.999F;
    float epsilon = 1e-8F;
    float decay = 0.01F;
};

/// What a step of AdamW is beside the gradients.
struct AdamWStep {
    float rate = 0;
    /// Counts the steps from 1, also over a restart.
    std::int64_t number = 1;
    /// Whether these values decay.
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
