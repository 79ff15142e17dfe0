// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by mnist_kernels.cu and the code that launches its kernels: their arguments and the data
// in the GPU's memory. Matrices are row-major; a batch has a row for each sample.

namespace mnist::cuda {

inline constexpr unsigned pixel_count = 784;
inline constexpr unsigned hidden_count = 128;
inline constexpr unsigned class_count = 10;
inline constexpr unsigned parameter_count = 5;

using Long = unsigned long long;

/// The position of the training. A recorded step reads it here, so the same recording performs
/// every step.
struct Position {
    /// The number of earlier steps, including those before restarts.
    Long step;
    /// The beginning of the batch in the epoch's order.
    unsigned offset;
    /// How many blocks of the optimizer have finished; the last one advances to the next step.
    unsigned finished_blocks;
};

/// Selects samples: `order` from `offset` on, plus `position`'s offset if there is one.
struct Samples {
    const unsigned char* pixels;
    const unsigned char* labels;
    const unsigned* order;
    const Position* position;
    unsigned offset;
};

/// Dropout of a layer: the numbers that mnist::Mlp draws on the CPU.
struct Dropout {
    const Position* position;
    Long seed;
    Long rank;
    Long layer;
};

/// Sums over the steps since they were cleared.
struct BatchSums {
    double loss;
    Long correct;
};

/// One parameter, its gradient, and what the optimizer keeps for it (`second`: Adam only).
struct OptimizedParameter {
    float* values;
    const float* gradient;
    float* first;
    float* second;
    unsigned count;
};

struct OptimizedStep {
    OptimizedParameter parameters[parameter_count];
    /// When this word is 0, nothing is updated and the step does not count. May be null.
    const unsigned* commit_word;
    Position* position;
    float rate;
    unsigned batch_size;
};

/// Threads of a block, for the kernels that depend on this number.
inline constexpr unsigned output_threads = hidden_count;
inline constexpr unsigned gradient_threads = 4 * hidden_count;
inline constexpr unsigned backward_units = 8;
inline constexpr unsigned backward_rows = 64;
inline constexpr unsigned backward_threads = backward_units * backward_rows;

/// Converts the samples' bytes to normalised floats, four pixels for each thread.
using Gather = void(Samples samples, unsigned batch_size, float* input);
/// Adds the bias and applies ReLU and dropout of a hidden layer, in place; two units for each
/// thread.
using BiasReluDropout =
    void(float* hidden, const float* bias, unsigned batch_size, Dropout dropout);
/// A block of output_threads for each sample: the last layer, softmax, loss, and gradients back to
/// the second hidden layer's values before its ReLU. Gradients are of the mean over the batch.
using Output = void(
    const float* hidden,
    const float* weight,
    Samples samples,
    unsigned batch_size,
    float* score_gradient,
    float* hidden_gradient,
    float* losses,
    unsigned* correct);
/// Computes the last layer's gradient, the second layer's bias gradient, and the sums of the batch.
/// It needs class_count + 2 blocks of gradient_threads.
using OutputGradients = void(
    const float* score_gradient,
    const float* hidden,
    const float* hidden_gradient,
    const float* losses,
    const unsigned* correct,
    unsigned batch_size,
    float* weight_gradient,
    float* bias_gradient,
    BatchSums* sums);
/// hidden_count / backward_units blocks of backward_threads: backward through ReLU and dropout in
/// place, and the bias gradient.
using HiddenBackward =
    void(float* gradient, const float* hidden, unsigned batch_size, float* bias_gradient);
/// A thread for each value of the network; the last block advances to the next step.
using UpdateSgd = void(OptimizedStep step);
using UpdateAdam = void(OptimizedStep step);
/// A block of output_threads for each sample: counts the samples that are classified correctly.
using CountCorrect =
    void(const float* hidden, const float* weight, Samples samples, unsigned* correct);

}  // namespace mnist::cuda
