// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/model_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace transformer {

struct Shape {
    std::size_t vocabulary = 0;
    /// The number of tokens in a window: the most that the model can use.
    std::size_t context = 64;
    std::size_t width = 64;
    /// Divides the width.
    std::size_t heads = 4;
    std::size_t layers = 2;
};

/// The parameters in the order of the forward pass. Names of matrices end in "weight": only these
/// decay.
std::vector<ddprun::ParameterSpec> parameters_of(const Shape& shape);

/// A decoder-only transformer: learnt positions, normalisation before attention and before the
/// feed-forward part (GELU, four times as wide), with the embedding as the last layer too. Its
/// parameters are in the caller's memory. One thread, in float.
class Model {
public:
    /// One pointer for each of `parameters_of`.
    Model(const Shape& shape, std::vector<float*> parameters, std::vector<float*> gradients);

    /// `call` is called by each forward pass for each parameter before it is read, from the first
    /// to the last.
    void before_use(std::function<void(std::size_t)> call) { before_use_ = std::move(call); }

    /// The same numbers for the same seed, on every machine.
    void initialise(std::uint64_t seed);

    /// Each window has context + 1 tokens. The loss of a window is the mean cross-entropy of the
    /// next token, in nats; returns the sum over the windows. Adds `scale` times the gradient of
    /// that sum to the gradients. Calls `ready` with each parameter, from the last to the first,
    /// once its gradient is complete.
    double train(
        const std::vector<const std::uint8_t*>& windows,
        float scale,
        const std::function<void(std::size_t)>& ready);

    /// The most likely token after these: at least one token must be given, and the last `context`
    /// are used.
    std::uint8_t next(const std::vector<std::uint8_t>& tokens) const;

private:
    struct Pass;

    Pass forward(const std::vector<const std::uint8_t*>& windows, std::size_t length) const;
    void use(std::size_t first, std::size_t count) const;

    Shape shape_;
    std::vector<float*> parameters_;
    std::vector<float*> gradients_;
    std::function<void(std::size_t)> before_use_;
};

}  // namespace transformer
