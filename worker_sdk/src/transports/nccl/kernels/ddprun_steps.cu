// SPDX-License-Identifier: Apache-2.0
// Sets the commit word of a training step, counts it, and clips its gradients.

namespace {

using Count = unsigned long long;

constexpr unsigned threads_of_block = 256;

/// The sum of all threads' values, in a fixed order. Once in a kernel.
__device__ double block_sum(double value) {
    __shared__ double sums[threads_of_block];
    sums[threadIdx.x] = value;
    for (unsigned half = threads_of_block / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    return sums[0];
}

}  // namespace

/// One thread. `valid_flag` is in host memory, and may change at any time.
extern "C" __global__ void ddprun_latch(unsigned* commit, unsigned* valid_flag) {
    *commit = __nv_atomic_load_n(valid_flag, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_SYSTEM);
}

/// One thread. Writes the count to `steps`, which is in host memory: slow to read from.
extern "C" __global__ void ddprun_count_step(const unsigned* commit, Count* count, Count* steps) {
    if (*commit == 0) return;
    *count += 1;
    __nv_atomic_store_n(steps, *count, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_SYSTEM);
}

/// `sums[block]` becomes the sum of the squares of this block's elements. Blocks of 256 threads.
extern "C" __global__ void __launch_bounds__(threads_of_block)
    ddprun_sum_squares(const float* __restrict__ values, Count count, double* __restrict__ sums) {
    double sum = 0;
    const Count stride = static_cast<Count>(gridDim.x) * blockDim.x;
#pragma unroll 4
    for (Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += stride) {
        const double value = values[i];
        sum += value * value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// Computes the square root of the sum of all sums. One block of 256 threads.
extern "C" __global__ void __launch_bounds__(threads_of_block)
    ddprun_norm_of_sums(const double* sums, unsigned count, float* norm) {
    double sum = 0;
    for (unsigned i = threadIdx.x; i < count; i += threads_of_block)
        sum += sums[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *norm = static_cast<float>(sqrt(sum));
}

/// Scales the values so that their norm is at most `max_norm`. As in PyTorch, the small number
/// keeps the result below the bound after rounding.
extern "C" __global__ void ddprun_clip(
    float* values, Count count, const float* norm, float max_norm) {
    if (*norm <= max_norm) return;
    const float factor = max_norm / (*norm + 1e-6F);
    const Count stride = static_cast<Count>(gridDim.x) * blockDim.x;
#pragma unroll 4
    for (Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += stride)
        values[i] *= factor;
}
