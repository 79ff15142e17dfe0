// SPDX-License-Identifier: Apache-2.0
// What kernels are made of, a little of each, for the test of the emulator.
#include <cuda_bf16.h>

extern "C" __global__ void test_where(unsigned* out) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    out[block * threads + thread] = block * 1000 + thread;
}

/// Every element becomes the sum of all in its block, by way of dynamic shared memory.
extern "C" __global__ void __launch_bounds__(1024)
    test_block_sum(float* __restrict__ data, unsigned count) {
    extern __shared__ float sums[];
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    sums[threadIdx.x] = i < count ? data[i] : 0.0F;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    if (i < count) data[i] = sums[0];
}

__device__ __forceinline__ int warp_sum(int value) {
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_down_sync(0xffffffff, value, distance);
    return value;
}

/// Warps by shuffles, then the warps' sums by static shared memory; the grid by an atomic.
extern "C" __global__ void test_grid_sum(const int* data, int count, int* sum) {
    __shared__ int of_warp[32];
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    const int mine = warp_sum(i < count ? data[i] : 0);
    const int lane = static_cast<int>(threadIdx.x) % warpSize;
    const int warp = static_cast<int>(threadIdx.x) / warpSize;
    if (lane == 0) of_warp[warp] = mine;
    __syncthreads();
    if (warp != 0) return;
    const int warps = static_cast<int>(blockDim.x) / warpSize;
    const int all = warp_sum(lane < warps ? of_warp[lane] : 0);
    if (lane == 0) atomicAdd(sum, all);
}

/// What each lane learns of its half of the warp, the halves diverging.
extern "C" __global__ void test_lanes(unsigned* ballots, int* rotated, int* swapped) {
    const int lane = static_cast<int>(threadIdx.x);
    if (lane < 16) {
        ballots[lane] = __ballot_sync(0x0000ffff, lane % 3 == 0);
        rotated[lane] = __shfl_sync(0x0000ffff, lane * 10, lane + 1, 16);
    } else {
        ballots[lane] = __ballot_sync(0xffff0000, lane % 2 == 0);
        rotated[lane] = __shfl_up_sync(0xffff0000, lane * 10, 1, 16);
    }
    __syncwarp();
    swapped[lane] = __shfl_xor_sync(0xffffffff, lane, 1);
}

extern "C" __global__ void test_bf16(const float* from, __nv_bfloat16* to, float* back, int count) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
        to[i] = __float2bfloat16(from[i]);
        back[i] = __bfloat162float(to[i]);
    }
}
