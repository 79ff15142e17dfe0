// SPDX-License-Identifier: Apache-2.0
// What decides and counts a training step, and clips its gradients.

namespace {

using Count = unsigned long long;

constexpr unsigned threads_of_block = 256;

/// The sum of all threads' values, in a fixed order, for the first thread.
__device__ double block_sum(double value) {
    __shared__ double sums[threads_of_block];
    sums[threadIdx.x] = value;
    for (unsigned half = threads_of_block / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    return sums[0];
}

}  // namespace

/// One thread. `is_sound` is in the machine's memory, and may change at any time.
extern "C" __global__ void ddprun_latch(unsigned* commit, const volatile unsigned* is_sound) {
    *commit = *is_sound;
}

/// One thread. `steps` is in the machine's memory.
extern "C" __global__ void ddprun_count_step(
    const unsigned* commit, volatile unsigned long long* steps) {
    if (*commit != 0) *steps = *steps + 1;
    __threadfence_system();
}

/// `sums[block]`: of the squares that this block's threads meet. Blocks of 256 threads.
extern "C" __global__ void __launch_bounds__(threads_of_block)
    ddprun_sum_squares(const float* values, Count count, double* sums) {
    double sum = 0;
    const Count stride = static_cast<Count>(gridDim.x) * blockDim.x;
    for (Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += stride) {
        const double value = values[i];
        sum += value * value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// One block of 256 threads: the square root of the sum of at most 256 sums.
extern "C" __global__ void __launch_bounds__(threads_of_block)
    ddprun_norm_of_sums(const double* sums, unsigned count, float* norm) {
    const double sum = block_sum(threadIdx.x < count ? sums[threadIdx.x] : 0.0);
    if (threadIdx.x == 0) *norm = static_cast<float>(sqrt(sum));
}

/// Makes the norm at most `max_norm`. As PyTorch does it: the small number keeps the result below
/// the bound after rounding.
extern "C" __global__ void ddprun_clip(
    float* values, Count count, const float* norm, float max_norm) {
    if (*norm <= max_norm) return;
    const float factor = max_norm / (*norm + 1e-6F);
    const Count stride = static_cast<Count>(gridDim.x) * blockDim.x;
    for (Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += stride)
        values[i] *= factor;
}
