// SPDX-License-Identifier: Apache-2.0
// The part after the convolutions: the largest value of each channel, a linear layer, softmax and
// cross entropy, and their gradients. The work is small, so sums are computed in order, without
// tricks.
#include "bf16.cuh"

using namespace cifar;

namespace {

constexpr int classes = 10;
constexpr unsigned whole_warp = 0xFFFFFFFFU;
constexpr int warp = 32;

}  // namespace

/// x has pictures * pixels * channels values. The index of the largest pixel (the first of equals)
/// is kept for backward. NaN counts as the largest, so that it reaches the loss.
extern "C" __global__ void cifar_global_max(
    const Bf16* x, int count, int pixels, int channels, float* features, unsigned char* winners) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count * channels) return;
    const Bf16* first = x + static_cast<size_t>(i / channels) * pixels * channels + i % channels;
    float largest = widened(*first);
    int winner = 0;
    for (int p = 1; p < pixels; ++p) {
        const float value = widened(first[static_cast<size_t>(p) * channels]);
        if (value > largest || value != value) {
            largest = value;
            winner = p;
        }
    }
    features[i] = largest;
    winners[i] = static_cast<unsigned char>(winner);
}

/// One warp for each picture: scores = scale * weight * features, then loss, whether the highest
/// score is the label's, and the gradient of the batch's mean loss by the unscaled scores.
extern "C" __global__ void cifar_scores(
    const float* features,
    const float* weight,
    const unsigned char* labels,
    int channels,
    float scale,
    float inverse_count,
    float* losses,
    unsigned char* is_right,
    float* score_gradients) {
    const int picture = static_cast<int>(blockIdx.x);
    const int lane = static_cast<int>(threadIdx.x);
    float scores[classes] = {};
    for (int k = lane; k < channels; k += warp) {
        const float feature = features[static_cast<size_t>(picture) * channels + k];
        for (int c = 0; c < classes; ++c)
            scores[c] += feature * weight[c * channels + k];
    }
    for (int c = 0; c < classes; ++c) {
        for (int distance = warp / 2; distance > 0; distance /= 2)
            scores[c] += __shfl_xor_sync(whole_warp, scores[c], distance);
        scores[c] *= scale;
    }
    if (lane != 0) return;

    int best = 0;
    for (int c = 1; c < classes; ++c)
        if (scores[c] > scores[best]) best = c;
    const float top = scores[best];
    float sum = 0;
    for (int c = 0; c < classes; ++c)
        sum += expf(scores[c] - top);
    const int label = labels[picture];
    losses[picture] = logf(sum) - (scores[label] - top);
    is_right[picture] = best == label ? 1 : 0;
    for (int c = 0; c < classes; ++c) {
        const float share = expf(scores[c] - top) / sum - (c == label ? 1.0F : 0.0F);
        score_gradients[picture * classes + c] = share * scale * inverse_count;
    }
}

/// One warp adds the batch to totals[0], the loss, and totals[1], the right answers.
extern "C" __global__ void cifar_add_totals(
    const float* losses, const unsigned char* is_right, int count, double* totals) {
    double loss = 0;
    double right = 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += warp) {
        loss += static_cast<double>(losses[i]);
        right += is_right[i];
    }
    for (int distance = warp / 2; distance > 0; distance /= 2) {
        loss += __shfl_xor_sync(whole_warp, loss, distance);
        right += __shfl_xor_sync(whole_warp, right, distance);
    }
    if (threadIdx.x != 0) return;
    totals[0] += loss;
    totals[1] += right;
}

extern "C" __global__ void cifar_linear_gradient(
    const float* score_gradients, const float* features, int count, int channels, float* gradient) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= classes * channels) return;
    const int c = i / channels;
    const int k = i % channels;
    float sum = 0;
    for (int picture = 0; picture < count; ++picture)
        sum += score_gradients[picture * classes + c] *
               features[static_cast<size_t>(picture) * channels + k];
    gradient[i] = sum;
}

/// Backward through the linear layer and the maximum: dx is zero except at the largest pixels.
extern "C" __global__ void cifar_features_backward(
    const float* score_gradients,
    const float* weight,
    const unsigned char* winners,
    int count,
    int pixels,
    int channels,
    Bf16* dx) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count * channels) return;
    const int picture = i / channels;
    const int k = i % channels;
    float sum = 0;
    for (int c = 0; c < classes; ++c)
        sum += score_gradients[picture * classes + c] * weight[c * channels + k];
    Bf16* first = dx + static_cast<size_t>(picture) * pixels * channels + k;
    for (int p = 0; p < pixels; ++p)
        first[static_cast<size_t>(p) * channels] = p == winners[i] ? narrowed(sum) : Bf16{0};
}

static_assert(agrees<GlobalMax, decltype(cifar_global_max)>);
static_assert(agrees<Scores, decltype(cifar_scores)>);
static_assert(agrees<AddTotals, decltype(cifar_add_totals)>);
static_assert(agrees<LinearGradient, decltype(cifar_linear_gradient)>);
static_assert(agrees<FeaturesBackward, decltype(cifar_features_backward)>);
