// SPDX-License-Identifier: Apache-2.0
// Compresses gradients for transfer between GPUs: rounds to 16 bits (to nearest, ties to even), and
// back.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

using Count = unsigned long long;

__device__ __forceinline__ Count first() {
    return static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ Count stride() {
    return static_cast<Count>(gridDim.x) * blockDim.x;
}

}  // namespace

extern "C" __global__ void ddprun_to_bfloat16(
    __nv_bfloat16* __restrict__ to, const float* __restrict__ from, Count count, float factor) {
#pragma unroll 4
    for (Count i = first(); i < count; i += stride())
        to[i] = __float2bfloat16_rn(from[i] * factor);
}

extern "C" __global__ void ddprun_to_float16(
    __half* __restrict__ to, const float* __restrict__ from, Count count, float factor) {
#pragma unroll 4
    for (Count i = first(); i < count; i += stride())
        to[i] = __float2half_rn(from[i] * factor);
}

extern "C" __global__ void ddprun_from_bfloat16(
    float* __restrict__ to, const __nv_bfloat16* __restrict__ from, Count count) {
#pragma unroll 4
    for (Count i = first(); i < count; i += stride())
        to[i] = __bfloat162float(from[i]);
}

extern "C" __global__ void ddprun_from_float16(
    float* __restrict__ to, const __half* __restrict__ from, Count count) {
#pragma unroll 4
    for (Count i = first(); i < count; i += stride())
        to[i] = __half2float(from[i]);
}
