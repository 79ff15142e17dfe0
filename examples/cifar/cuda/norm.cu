// SPDX-License-Identifier: Apache-2.0
// Batch norm with what follows it in this net, fused: ReLU and the sum with an earlier output, or
// ReLU and the largest of 2 by 2 pixels. A tensor is `rows` pixels of `channels` each.
//
// Forward: sums -> fold -> (all ranks' sums added) -> finish -> apply. Backward works the same way;
// it computes again from the convolution's output what passes ReLU and pooling, so neither masks
// nor normalised values are kept. Sums are added in an order that depends on sizes alone. NaN
// passes forward, so that the loss shows that a run has diverged.
#include "bf16.cuh"

using namespace cifar;
namespace {

constexpr int threads = norm_threads;
/// Sums of one thread: two for each of its eight channels.
constexpr int sums_of_thread = 16;

/// `kept` holds mean, 1/deviation, scale and shift of all channels, one after the other.
struct Channels {
    float mean[8], inverse[8], scale[8], shift[8];
};

__device__ inline Channels channels_at(const float* kept, int channels, int first) {
    Channels result;
    for (int j = 0; j < 8; ++j) {
        result.mean[j] = kept[first + j];
        result.inverse[j] = kept[channels + first + j];
        result.scale[j] = kept[2 * channels + first + j];
        result.shift[j] = kept[3 * channels + first + j];
    }
    return result;
}

/// Adds up all threads' sums by channel: partial[block][2 * channels].
__device__ inline void write_partial(
    const float (&mine)[sums_of_thread], int channels, float* partial) {
    __shared__ float all[sums_of_thread * threads];
    const int thread = static_cast<int>(threadIdx.x);
    for (int k = 0; k < sums_of_thread; ++k)
        all[k * threads + thread] = mine[k];
    __syncthreads();
    const int lanes = channels / 8;
    for (int o = thread; o < 2 * channels; o += threads) {
        const int channel = o % channels;
        const int k = o / channels * 8 + channel % 8;
        float sum = 0;
        for (int t = channel / 8; t < threads; t += lanes)
            sum += all[k * threads + t];
        partial[static_cast<size_t>(blockIdx.x) * 2 * channels + o] = sum;
    }
}

/// The four pixels behind a pooled one, each as the index of its first channel's Eight.
struct Window {
    size_t at[4];
};

__device__ inline Window window_of(int pooled_row, int pooled_side, int lanes, int lane) {
    const int side = 2 * pooled_side;
    const int column = pooled_row % pooled_side;
    const int line = pooled_row / pooled_side;  // of all pictures; each has an even number of lines
    const size_t first = (static_cast<size_t>(2 * line) * side + 2 * column) * lanes + lane;
    const size_t below = first + static_cast<size_t>(side) * lanes;
    return {{first, first + lanes, below, below + lanes}};
}

struct Winner {
    int which;
    float x;
};

/// Which of four pixels is largest (the first of equals); -1 when ReLU makes all of them zero.
__device__ inline Winner winner_of(const Eight (&x)[4], const Channels& c, int j) {
    Winner best{-1, 0};
    float largest = 0;
    for (int p = 0; p < 4; ++p) {
        const float value = widened(x[p].value[j]);
        const float z = value * c.scale[j] + c.shift[j];
        if (z > largest) {
            largest = z;
            best = {p, value};
        }
    }
    return best;
}

/// Where a thread of a grid works: which eight channels, and which rows.
struct Place {
    int lanes, lane, first_row, stride;
};

__device__ inline Place place_of(int channels) {
    Place place;
    place.lanes = channels / 8;
    const int rows_at_once = threads / place.lanes;
    const int thread = static_cast<int>(threadIdx.x);
    place.lane = thread % place.lanes;
    place.first_row = static_cast<int>(blockIdx.x) * rows_at_once + thread / place.lanes;
    place.stride = static_cast<int>(gridDim.x) * rows_at_once;
    return place;
}

}  // namespace

/// Sums of x and of x^2.
extern "C" __global__ void cifar_norm_sums(const Eight* x, int rows, int channels, float* partial) {
    const Place place = place_of(channels);
    float mine[sums_of_thread] = {};
    for (int row = place.first_row; row < rows; row += place.stride) {
        const Eight values = x[static_cast<size_t>(row) * place.lanes + place.lane];
        for (int j = 0; j < 8; ++j) {
            const float value = widened(values.value[j]);
            mine[j] += value;
            mine[8 + j] += value * value;
        }
    }
    write_partial(mine, channels, partial);
}

/// Adds up the blocks' partial sums: sums[2 * channels]. A block makes fold_outputs of them, each
/// by fold_slices threads, since a single thread would wait for memory most of the time.
extern "C" __global__ void cifar_norm_fold(
    const float* partial, int blocks, int channels, float* sums) {
    __shared__ float slices[fold_slices][fold_outputs];
    const int output = static_cast<int>(threadIdx.x) % fold_outputs;
    const int slice = static_cast<int>(threadIdx.x) / fold_outputs;
    const int o = static_cast<int>(blockIdx.x) * fold_outputs + output;
    float sum = 0;
    if (o < 2 * channels)
        for (int block = slice; block < blocks; block += fold_slices)
            sum += partial[static_cast<size_t>(block) * 2 * channels + o];
    slices[slice][output] = sum;
    __syncthreads();
    if (slice != 0 || o >= 2 * channels) return;
    for (int other = 1; other < fold_slices; ++other)
        sum += slices[other][output];
    sums[o] = sum;
}

/// Computes, from the sums over `count` values, the values to apply and the running averages (mean,
/// then variance).
extern "C" __global__ void cifar_norm_finish(
    const float* sums,
    float count,
    int channels,
    const float* weight,
    const float* bias,
    float* kept,
    float* running) {
    const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (c >= channels) return;
    const float mean = sums[c] / count;
    const float spread = sums[channels + c] / count - mean * mean;
    const float variance = spread <= 0 ? 0 : spread;
    const float inverse = 1 / sqrtf(variance + norm_epsilon);
    const float scale = weight[c] * inverse;
    kept[c] = mean;
    kept[channels + c] = inverse;
    kept[2 * channels + c] = scale;
    kept[3 * channels + c] = bias[c] - mean * scale;
    running[c] += norm_momentum * (mean - running[c]);
    const float unbiased = count > 1 ? variance * (count / (count - 1)) : variance;
    running[channels + c] += norm_momentum * (unbiased - running[channels + c]);
}

/// The same for evaluation: from the running averages.
extern "C" __global__ void cifar_norm_finish_running(
    const float* running, int channels, const float* weight, const float* bias, float* kept) {
    const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (c >= channels) return;
    const float inverse = 1 / sqrtf(running[channels + c] + norm_epsilon);
    const float scale = weight[c] * inverse;
    kept[c] = running[c];
    kept[channels + c] = inverse;
    kept[2 * channels + c] = scale;
    kept[3 * channels + c] = bias[c] - running[c] * scale;
}

/// y = ReLU(norm(x)), plus `added` unless that is null.
extern "C" __global__ void cifar_norm_apply(
    const Eight* x, const float* kept, const Eight* added, int rows, int channels, Eight* y) {
    const Place place = place_of(channels);
    const Channels c = channels_at(kept, channels, 8 * place.lane);
    for (int row = place.first_row; row < rows; row += place.stride) {
        const size_t at = static_cast<size_t>(row) * place.lanes + place.lane;
        const Eight values = x[at];
        const Eight others = added ? added[at] : Eight{};
        Eight result;
        for (int j = 0; j < 8; ++j) {
            const float z = widened(values.value[j]) * c.scale[j] + c.shift[j];
            result.value[j] = narrowed((z <= 0 ? 0 : z) + widened(others.value[j]));
        }
        y[at] = result;
    }
}

/// y = the largest ReLU(norm(x)) of each 2 by 2 pixels. `rows` are those of y.
extern "C" __global__ void cifar_norm_apply_pool(
    const Eight* x, const float* kept, int rows, int pooled_side, int channels, Eight* y) {
    const Place place = place_of(channels);
    const Channels c = channels_at(kept, channels, 8 * place.lane);
    for (int row = place.first_row; row < rows; row += place.stride) {
        const Window window = window_of(row, pooled_side, place.lanes, place.lane);
        const Eight values[4] = {
            x[window.at[0]], x[window.at[1]], x[window.at[2]], x[window.at[3]]};
        Eight result;
        for (int j = 0; j < 8; ++j) {
            float largest = 0;
            for (int p = 0; p < 4; ++p) {
                const float z = widened(values[p].value[j]) * c.scale[j] + c.shift[j];
                if (z > largest || z != z) largest = z;
            }
            result.value[j] = narrowed(largest);
        }
        y[static_cast<size_t>(row) * place.lanes + place.lane] = result;
    }
}

/// Sums of g and of g * normalised x; g is dy where x passes ReLU, else zero.
extern "C" __global__ void cifar_norm_backward_sums(
    const Eight* x, const Eight* dy, const float* kept, int rows, int channels, float* partial) {
    const Place place = place_of(channels);
    const Channels c = channels_at(kept, channels, 8 * place.lane);
    float mine[sums_of_thread] = {};
#pragma unroll 2
    for (int row = place.first_row; row < rows; row += place.stride) {
        const size_t at = static_cast<size_t>(row) * place.lanes + place.lane;
        const Eight values = x[at];
        const Eight gradients = dy[at];
        for (int j = 0; j < 8; ++j) {
            const float value = widened(values.value[j]);
            if (!(value * c.scale[j] + c.shift[j] > 0)) continue;
            const float g = widened(gradients.value[j]);
            mine[j] += g;
            mine[8 + j] += g * ((value - c.mean[j]) * c.inverse[j]);
        }
    }
    write_partial(mine, channels, partial);
}

/// The same for a unit with pooling; `rows` are those of dy.
extern "C" __global__ void cifar_norm_backward_sums_pool(
    const Eight* x,
    const Eight* dy,
    const float* kept,
    int rows,
    int pooled_side,
    int channels,
    float* partial) {
    const Place place = place_of(channels);
    const Channels c = channels_at(kept, channels, 8 * place.lane);
    float mine[sums_of_thread] = {};
    for (int row = place.first_row; row < rows; row += place.stride) {
        const Window window = window_of(row, pooled_side, place.lanes, place.lane);
        const Eight values[4] = {
            x[window.at[0]], x[window.at[1]], x[window.at[2]], x[window.at[3]]};
        const Eight gradients = dy[static_cast<size_t>(row) * place.lanes + place.lane];
        for (int j = 0; j < 8; ++j) {
            const Winner best = winner_of(values, c, j);
            if (best.which < 0) continue;
            const float g = widened(gradients.value[j]);
            mine[j] += g;
            mine[8 + j] += g * ((best.x - c.mean[j]) * c.inverse[j]);
        }
    }
    write_partial(mine, channels, partial);
}

/// This rank's sums are the gradients of batch norm's bias and weight.
extern "C" __global__ void cifar_norm_gradients(
    const float* sums, int channels, float* weight_gradient, float* bias_gradient) {
    const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (c >= channels) return;
    bias_gradient[c] = sums[c];
    weight_gradient[c] = sums[channels + c];
}

/// Computes dx from dy and the sums over `1 / inverse_count` values.
extern "C" __global__ void cifar_norm_backward(
    const Eight* x,
    const Eight* dy,
    const float* kept,
    const float* sums,
    float inverse_count,
    int rows,
    int channels,
    Eight* dx) {
    const Place place = place_of(channels);
    const Channels c = channels_at(kept, channels, 8 * place.lane);
    float mean_g[8], mean_gx[8];
    for (int j = 0; j < 8; ++j) {
        mean_g[j] = sums[8 * place.lane + j] * inverse_count;
        mean_gx[j] = sums[channels + 8 * place.lane + j] * inverse_count;
    }
    for (int row = place.first_row; row < rows; row += place.stride) {
        const size_t at = static_cast<size_t>(row) * place.lanes + place.lane;
        const Eight values = x[at];
        const Eight gradients = dy[at];
        Eight result;
        for (int j = 0; j < 8; ++j) {
            const float value = widened(values.value[j]);
            const bool passes = value * c.scale[j] + c.shift[j] > 0;
            const float g = passes ? widened(gradients.value[j]) : 0;
            const float centred = (value - c.mean[j]) * c.inverse[j];
            result.value[j] = narrowed(c.scale[j] * (g - mean_g[j] - centred * mean_gx[j]));
        }
        dx[at] = result;
    }
}

/// The same for a unit with pooling; `rows` are those of dy.
extern "C" __global__ void cifar_norm_backward_pool(
    const Eight* x,
    const Eight* dy,
    const float* kept,
    const float* sums,
    float inverse_count,
    int rows,
    int pooled_side,
    int channels,
    Eight* dx) {
    const Place place = place_of(channels);
    const Channels c = channels_at(kept, channels, 8 * place.lane);
    for (int row = place.first_row; row < rows; row += place.stride) {
        const Window window = window_of(row, pooled_side, place.lanes, place.lane);
        const Eight values[4] = {
            x[window.at[0]], x[window.at[1]], x[window.at[2]], x[window.at[3]]};
        const Eight gradients = dy[static_cast<size_t>(row) * place.lanes + place.lane];
        Eight result[4];
        for (int j = 0; j < 8; ++j) {
            const Winner best = winner_of(values, c, j);
            const float mean_g = sums[8 * place.lane + j] * inverse_count;
            const float mean_gx = sums[channels + 8 * place.lane + j] * inverse_count;
            for (int p = 0; p < 4; ++p) {
                const float g = p == best.which ? widened(gradients.value[j]) : 0;
                const float centred = (widened(values[p].value[j]) - c.mean[j]) * c.inverse[j];
                result[p].value[j] = narrowed(c.scale[j] * (g - mean_g - centred * mean_gx));
            }
        }
        for (int p = 0; p < 4; ++p)
            dx[window.at[p]] = result[p];
    }
}

static_assert(agrees<NormSums, decltype(cifar_norm_sums)>);
static_assert(agrees<NormFold, decltype(cifar_norm_fold)>);
static_assert(agrees<NormFinish, decltype(cifar_norm_finish)>);
static_assert(agrees<NormFinishRunning, decltype(cifar_norm_finish_running)>);
static_assert(agrees<NormApply, decltype(cifar_norm_apply)>);
static_assert(agrees<NormApplyPool, decltype(cifar_norm_apply_pool)>);
static_assert(agrees<NormBackwardSums, decltype(cifar_norm_backward_sums)>);
static_assert(agrees<NormBackwardSumsPool, decltype(cifar_norm_backward_sums_pool)>);
static_assert(agrees<NormGradients, decltype(cifar_norm_gradients)>);
static_assert(agrees<NormBackward, decltype(cifar_norm_backward)>);
static_assert(agrees<NormBackwardPool, decltype(cifar_norm_backward_pool)>);
