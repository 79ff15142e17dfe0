// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "idx_file.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mnist {

/// A matrix of the network, row-major (as in PyTorch: outputs by inputs), or a bias.
struct ParameterShape {
    std::string name;
    std::size_t rows = 0;
    std::size_t columns = 1;

    std::size_t count() const { return rows * columns; }
};

/// Determines which units a step drops: equal for the same step on every machine and after any
/// restart, and different on each rank.
struct DropoutKey {
    std::uint64_t seed = 0;
    std::uint64_t step = 0;
    std::uint64_t rank = 0;
};

/// Sums over the samples of a batch.
struct BatchResult {
    double loss = 0;
    std::int64_t correct = 0;
};

/// The network of the classic tutorial: 784-128-128-10, ReLU, dropout 0.2 after each hidden layer,
/// no bias in the last one, cross entropy.
///
/// The caller owns parameters and gradients, and averages them. One thread; the same input gives
/// the same bits.
class Mlp {
public:
    using GradientDone = std::function<void(std::size_t parameter)>;

    static const std::vector<ParameterShape>& parameters();

    /// Pointers to the memory of each parameter and gradient, in the order of `parameters()`; it
    /// must outlive the network.
    Mlp(std::vector<float*> values, std::vector<float*> gradients);
    Mlp(Mlp&&) noexcept;
    ~Mlp();

    /// Sets values that are uniform in +-1/sqrt(inputs), like PyTorch's linear layers.
    void initialise(std::uint64_t seed);

    /// Forward and backward over data[batch[0]], data[batch[1]], ... Gradients of the mean loss are
    /// written (not added), from the last parameter to the first; `done` is called for each.
    BatchResult train(
        const Dataset& data,
        const std::uint64_t* batch,
        std::size_t batch_size,
        const DropoutKey& key,
        const GradientDone& done);

    /// Forward only, without dropout: how many of data[first], data[first + stride], ... are
    /// classified correctly.
    std::int64_t count_correct(const Dataset& data, std::size_t first, std::size_t stride);

private:
    struct Layers;
    std::unique_ptr<Layers> layers_;
};

}  // namespace mnist
