// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Shared by the host and the kernels: the types of values in the GPU's memory, and of each
/// kernel's arguments. The kernels' files describe what they do.
namespace cifar {

/// The bits of a bfloat16.
using Bf16 = unsigned short;

/// Eight channels of a pixel: one load of 16 bytes. Every tensor consists of these: pixel after
/// pixel, with all channels of a pixel together.
struct alignas(16) Eight {
    Bf16 value[8];
};

/// How pictures of a batch are varied: a crop of a frame of 4 mirrored pixels, a flip every other
/// time, and a square of `cut` pixels a side (0: none) that shows the mean colour. The result
/// depends on seed, epoch and picture alone, not on the rank that loads it.
struct Augmentation {
    unsigned long long seed;
    unsigned long long epoch;
    int cut;
    int is_on;
};

/// One parameter: the float that is trained, and the copy that convolutions read.
struct Slot {
    float* value;
    const float* gradient;
    float* velocity;
    /// Null when no kernel reads it.
    Bf16* copy;
    unsigned long long count;
    float decay;
};

/// Threads of a block in every kernel of norm.cu: a multiple of the Eights of a pixel, 1 to 128.
inline constexpr int norm_threads = 256;
/// For cifar_norm_fold: a block has fold_outputs * fold_slices threads.
inline constexpr int fold_outputs = 32;
inline constexpr int fold_slices = 8;
inline constexpr float norm_epsilon = 1e-5F;
/// The weight of the newest batch in the running averages.
inline constexpr float norm_momentum = 0.1F;
/// Floats that a batch norm keeps for each channel: mean, 1 / deviation, scale, shift.
inline constexpr int norm_kept = 4;

// batch.cu
using LoadBatch = void(
    const unsigned char* images,
    const unsigned char* labels,
    const unsigned* order,
    Augmentation,
    int count,
    Eight* out,
    unsigned char* out_labels);

// norm.cu
using NormSums = void(const Eight* x, int rows, int channels, float* partial);
using NormFold = void(const float* partial, int blocks, int channels, float* sums);
using NormFinish = void(
    const float* sums,
    float count,
    int channels,
    const float* weight,
    const float* bias,
    float* kept,
    float* running);
using NormFinishRunning =
    void(const float* running, int channels, const float* weight, const float* bias, float* kept);
using NormApply =
    void(const Eight* x, const float* kept, const Eight* added, int rows, int channels, Eight* y);
using NormApplyPool =
    void(const Eight* x, const float* kept, int rows, int pooled_side, int channels, Eight* y);
using NormBackwardSums = void(
    const Eight* x, const Eight* dy, const float* kept, int rows, int channels, float* partial);
using NormBackwardSumsPool = void(
    const Eight* x,
    const Eight* dy,
    const float* kept,
    int rows,
    int pooled_side,
    int channels,
    float* partial);
using NormGradients =
    void(const float* sums, int channels, float* weight_gradient, float* bias_gradient);
using NormBackward = void(
    const Eight* x,
    const Eight* dy,
    const float* kept,
    const float* sums,
    float inverse_count,
    int rows,
    int channels,
    Eight* dx);
using NormBackwardPool = void(
    const Eight* x,
    const Eight* dy,
    const float* kept,
    const float* sums,
    float inverse_count,
    int rows,
    int pooled_side,
    int channels,
    Eight* dx);

// head.cu
using GlobalMax = void(
    const Bf16* x, int count, int pixels, int channels, float* features, unsigned char* winners);
using Scores = void(
    const float* features,
    const float* weight,
    const unsigned char* labels,
    int channels,
    float scale,
    float inverse_count,
    float* losses,
    unsigned char* is_right,
    float* score_gradients);
using AddTotals =
    void(const float* losses, const unsigned char* is_right, int count, double* totals);
using LinearGradient = void(
    const float* score_gradients, const float* features, int count, int channels, float* gradient);
using FeaturesBackward = void(
    const float* score_gradients,
    const float* weight,
    const unsigned char* winners,
    int count,
    int pixels,
    int channels,
    Bf16* dx);

// update.cu
using Update = void(const Slot* slots, float rate, float momentum, const unsigned* committed);
using RefreshCopies = void(const Slot* slots);
using Widen = void(const Bf16* from, int count, float* to);

}  // namespace cifar
