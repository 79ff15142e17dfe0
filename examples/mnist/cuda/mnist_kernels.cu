// SPDX-License-Identifier: Apache-2.0
// The parts of a step of examples/mnist that cuBLASLt does not compute. The arithmetic is that of
// mlp.cpp and optimizer.cpp; sums are made in a fixed order, so that each run gives the same bits.
#include "kernels.hpp"

#include <type_traits>

using namespace mnist::cuda;

namespace {

constexpr float pixel_mean = 0.1307F;
constexpr float pixel_deviation = 0.3081F;
constexpr float drop_share = 0.2F;
constexpr unsigned dropped_below = static_cast<unsigned>(drop_share * 4294967296.0);
constexpr float kept_scale = 1 / (1 - drop_share);

__device__ Long mixed(Long value) {
    value += 0x9E3779B97F4A7C15U;
    value = (value ^ value >> 30U) * 0xBF58476D1CE4E5B9U;
    value = (value ^ value >> 27U) * 0x94D049BB133111EBU;
    return value ^ value >> 31U;
}

/// seed_of({seed, step, rank, layer})
__device__ Long seed_of(const Dropout& dropout) {
    Long seed = mixed(dropout.seed);
    seed = mixed(seed ^ dropout.position->step);
    seed = mixed(seed ^ dropout.rank);
    return mixed(seed ^ dropout.layer);
}

__device__ unsigned sample_at(const Samples& samples, unsigned index) {
    const unsigned base = samples.position ? samples.position->offset : 0;
    return samples.order[base + samples.offset + index];
}

__device__ float normalised(unsigned char pixel) {
    return (static_cast<float>(pixel) / 255.0F - pixel_mean) / pixel_deviation;
}

/// The last layer for one sample, by a block of output_threads.
__device__ void score(const float* hidden, const float* weight, float* scores) {
    const unsigned lane = threadIdx.x % 32;
    for (unsigned k = threadIdx.x / 32; k < class_count; k += output_threads / 32) {
        float sum = 0;
        for (unsigned unit = lane; unit < hidden_count; unit += 32)
            sum += hidden[unit] * weight[k * hidden_count + unit];
        for (unsigned distance = 16; distance > 0; distance /= 2)
            sum += __shfl_down_sync(0xFFFFFFFFU, sum, distance);
        if (lane == 0) scores[k] = sum;
    }
    __syncthreads();
}

__device__ unsigned largest(const float* scores) {
    unsigned best = 0;
    for (unsigned k = 1; k < class_count; ++k)
        if (scores[k] > scores[best]) best = k;
    return best;
}

/// Turns the scores into the gradient of the cross entropy; returns the loss.
__device__ float softmax_loss(float* scores, unsigned label) {
    const float top = scores[largest(scores)];
    float sum = 0;
    for (unsigned k = 0; k < class_count; ++k)
        sum += expf(scores[k] - top);
    const float loss = logf(sum) - (scores[label] - top);
    for (unsigned k = 0; k < class_count; ++k)
        scores[k] = expf(scores[k] - top) / sum;
    scores[label] -= 1;
    return loss;
}

/// A unit whose output was zero, dropped or negative, passes no gradient back.
__device__ float through_hidden(float gradient, float hidden) {
    return hidden > 0 ? gradient * kept_scale : 0.0F;
}

__device__ bool counts(const OptimizedStep& step) {
    return step.commit_word == nullptr || *step.commit_word != 0;
}

/// The last block that calls this advances to the next step: no block reads the position any more.
__device__ void finish(const OptimizedStep& step) {
    __syncthreads();
    if (threadIdx.x != 0) return;
    Position& position = *step.position;
    __threadfence();
    if (atomicAdd(&position.finished_blocks, 1U) + 1 != gridDim.x) return;
    position.finished_blocks = 0;
    position.offset += step.batch_size;
    position.step += 1;
}

/// Returns the parameter that contains value `index` of the network; `index` becomes the index in
/// that parameter.
__device__ const OptimizedParameter* find(const OptimizedStep& step, unsigned& index) {
    for (unsigned p = 0; p < parameter_count; ++p) {
        if (index < step.parameters[p].count) return &step.parameters[p];
        index -= step.parameters[p].count;
    }
    return nullptr;
}

}  // namespace

extern "C" __global__ void mnist_gather(Samples samples, unsigned batch_size, float* input) {
    constexpr unsigned pieces = pixel_count / 4;
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= batch_size * pieces) return;
    const unsigned sample = sample_at(samples, thread / pieces);
    const auto* pixels = reinterpret_cast<const uchar4*>(samples.pixels) +
                         static_cast<Long>(sample) * pieces + thread % pieces;
    const uchar4 four = *pixels;
    reinterpret_cast<float4*>(input)[thread] = {
        normalised(four.x), normalised(four.y), normalised(four.z), normalised(four.w)};
}

extern "C" __global__ void mnist_bias_relu_dropout(
    float* hidden, const float* bias, unsigned batch_size, Dropout dropout) {
    const unsigned first = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (first >= batch_size * hidden_count) return;
    const Long bits = mixed(seed_of(dropout) + first);
    const unsigned draws[2] = {static_cast<unsigned>(bits), static_cast<unsigned>(bits >> 32U)};
    for (unsigned i = 0; i < 2; ++i) {
        const float sum = hidden[first + i] + bias[(first + i) % hidden_count];
        const float value = sum <= 0 ? 0.0F : sum;  // NaN stays
        hidden[first + i] = draws[i] < dropped_below ? 0.0F : value * kept_scale;
    }
}

extern "C" __global__ void mnist_output(
    const float* hidden,
    const float* weight,
    Samples samples,
    unsigned batch_size,
    float* score_gradient,
    float* hidden_gradient,
    float* losses,
    unsigned* correct) {
    __shared__ float scores[class_count];
    const unsigned sample = blockIdx.x;
    const float* mine = hidden + sample * hidden_count;
    score(mine, weight, scores);
    if (threadIdx.x == 0) {
        const unsigned label = samples.labels[sample_at(samples, sample)];
        correct[sample] = largest(scores) == label ? 1 : 0;
        losses[sample] = softmax_loss(scores, label);
    }
    __syncthreads();
    const float share = static_cast<float>(batch_size);
    const unsigned unit = threadIdx.x;
    if (unit < class_count) score_gradient[sample * class_count + unit] = scores[unit] / share;
    float sum = 0;
    for (unsigned k = 0; k < class_count; ++k)
        sum += weight[k * hidden_count + unit] * (scores[k] / share);
    hidden_gradient[sample * hidden_count + unit] = through_hidden(sum, mine[unit]);
}

namespace {

/// Adds up over the batch, four samples at a time.
__device__ void sum_over_batch(
    const float* factors,
    unsigned factor_stride,
    const float* lines,
    unsigned batch_size,
    float* sum) {
    __shared__ float partial[gradient_threads];
    const unsigned unit = threadIdx.x % hidden_count;
    float mine = 0;
    for (unsigned sample = threadIdx.x / hidden_count; sample < batch_size;
         sample += gradient_threads / hidden_count) {
        const float factor = factors ? factors[sample * factor_stride] : 1.0F;
        mine += factor * lines[sample * hidden_count + unit];
    }
    partial[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x >= hidden_count) return;
    for (unsigned i = 1; i < gradient_threads / hidden_count; ++i)
        mine += partial[i * hidden_count + unit];
    sum[unit] = mine;
}

__device__ void sum_batch(
    const float* losses, const unsigned* correct, unsigned batch_size, BatchSums* sums) {
    __shared__ double loss[gradient_threads];
    __shared__ unsigned right[gradient_threads];
    const unsigned thread = threadIdx.x;
    loss[thread] = 0;
    right[thread] = 0;
    for (unsigned sample = thread; sample < batch_size; sample += gradient_threads) {
        loss[thread] += static_cast<double>(losses[sample]);
        right[thread] += correct[sample];
    }
    for (unsigned half = gradient_threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread >= half) continue;
        loss[thread] += loss[thread + half];
        right[thread] += right[thread + half];
    }
    if (thread != 0) return;
    sums->loss += loss[0];
    sums->correct += right[0];
}

}  // namespace

extern "C" __global__ void __launch_bounds__(gradient_threads) mnist_output_gradients(
    const float* score_gradient,
    const float* hidden,
    const float* hidden_gradient,
    const float* losses,
    const unsigned* correct,
    unsigned batch_size,
    float* weight_gradient,
    float* bias_gradient,
    BatchSums* sums) {
    if (blockIdx.x < class_count)
        sum_over_batch(
            score_gradient + blockIdx.x,
            class_count,
            hidden,
            batch_size,
            weight_gradient + blockIdx.x * hidden_count);
    else if (blockIdx.x == class_count)
        sum_over_batch(nullptr, 0, hidden_gradient, batch_size, bias_gradient);
    else
        sum_batch(losses, correct, batch_size, sums);
}

extern "C" __global__ void __launch_bounds__(backward_threads) mnist_hidden_backward(
    float* __restrict__ gradient,
    const float* __restrict__ hidden,
    unsigned batch_size,
    float* bias_gradient) {
    __shared__ float partial[backward_rows][backward_units];
    const unsigned column = threadIdx.x % backward_units;
    const unsigned row = threadIdx.x / backward_units;
    const unsigned unit = blockIdx.x * backward_units + column;
    float sum = 0;
#pragma unroll 4
    for (unsigned sample = row; sample < batch_size; sample += backward_rows) {
        const unsigned at = sample * hidden_count + unit;
        const float value = through_hidden(gradient[at], hidden[at]);
        gradient[at] = value;
        sum += value;
    }
    partial[row][column] = sum;
    for (unsigned half = backward_rows / 2; half > 0; half /= 2) {
        __syncthreads();
        if (row < half) partial[row][column] += partial[row + half][column];
    }
    if (row == 0) bias_gradient[unit] = partial[0][column];
}

extern "C" __global__ void mnist_update_sgd(const __grid_constant__ OptimizedStep step) {
    constexpr float momentum = 0.9F;
    if (!counts(step)) return;
    unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    if (const auto* parameter = find(step, index)) {
        const float velocity = momentum * parameter->first[index] + parameter->gradient[index];
        parameter->first[index] = velocity;
        parameter->values[index] -= step.rate * velocity;
    }
    finish(step);
}

extern "C" __global__ void mnist_update_adam(const __grid_constant__ OptimizedStep step) {
    constexpr float first_decay = 0.9F;
    constexpr float second_decay = 0.999F;
    constexpr float epsilon = 1e-8F;
    __shared__ float rate;
    __shared__ float scale;
    if (!counts(step)) return;
    if (threadIdx.x == 0) {
        const double steps = static_cast<double>(step.position->step + 1);
        rate = static_cast<float>(step.rate / (1 - pow(static_cast<double>(first_decay), steps)));
        scale = static_cast<float>(1 / sqrt(1 - pow(static_cast<double>(second_decay), steps)));
    }
    __syncthreads();
    unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    if (const auto* parameter = find(step, index)) {
        const float slope = parameter->gradient[index];
        const float mean = first_decay * parameter->first[index] + (1 - first_decay) * slope;
        const float square =
            second_decay * parameter->second[index] + (1 - second_decay) * slope * slope;
        parameter->first[index] = mean;
        parameter->second[index] = square;
        parameter->values[index] -= rate * mean / (sqrtf(square) * scale + epsilon);
    }
    finish(step);
}

extern "C" __global__ void mnist_count_correct(
    const float* hidden, const float* weight, Samples samples, unsigned* correct) {
    __shared__ float scores[class_count];
    score(hidden + blockIdx.x * hidden_count, weight, scores);
    if (threadIdx.x != 0) return;
    if (largest(scores) == samples.labels[sample_at(samples, blockIdx.x)]) atomicAdd(correct, 1U);
}

static_assert(std::is_same_v<decltype(mnist_gather), Gather>);
static_assert(std::is_same_v<decltype(mnist_bias_relu_dropout), BiasReluDropout>);
static_assert(std::is_same_v<decltype(mnist_output), Output>);
static_assert(std::is_same_v<decltype(mnist_output_gradients), OutputGradients>);
static_assert(std::is_same_v<decltype(mnist_hidden_backward), HiddenBackward>);
static_assert(std::is_same_v<decltype(mnist_update_sgd), UpdateSgd>);
static_assert(std::is_same_v<decltype(mnist_update_adam), UpdateAdam>);
static_assert(std::is_same_v<decltype(mnist_count_correct), CountCorrect>);
