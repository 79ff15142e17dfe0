// SPDX-License-Identifier: Apache-2.0
#pragma once

// CUDA's header of the same name, for cuda_on_cpu.hpp.

#include "tests/support/cuda_on_cpu/vectors.hpp"
#include "worker_sdk/include/ddprun/float16.hpp"

struct __nv_bfloat16 {
    ddprun::BFloat16 kept;

    __nv_bfloat16() = default;
    __nv_bfloat16(float value) : kept(value) {}
    operator float() const { return static_cast<float>(kept); }
};
using nv_bfloat16 = __nv_bfloat16;

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x;
    __nv_bfloat16 y;
};
using nv_bfloat162 = __nv_bfloat162;

inline __nv_bfloat16 __float2bfloat16(float value) {
    return value;
}
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
    return value;
}
inline float __bfloat162float(__nv_bfloat16 value) {
    return value;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    __nv_bfloat16 value;
    value.kept.bits = bits;
    return value;
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) {
    return value.kept.bits;
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {x, y};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 both) {
    return {both.x, both.y};
}
inline float2 __bfloat1622float2(__nv_bfloat162 both) {
    return {both.x, both.y};
}
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
    return {x, y};
}
