// SPDX-License-Identifier: Apache-2.0
#pragma once

// CUDA's header of the same name, for cuda_on_cpu.hpp.

#include "tests/support/cuda_on_cpu/vectors.hpp"
#include "worker_sdk/include/ddprun/float16.hpp"

struct __half {
    ddprun::Float16 kept;

    __half() = default;
    __half(float value) : kept(value) {}
    operator float() const { return static_cast<float>(kept); }
};
using half = __half;

struct alignas(4) __half2 {
    __half x;
    __half y;
};
using half2 = __half2;

inline __half __float2half(float value) {
    return value;
}
inline __half __float2half_rn(float value) {
    return value;
}
inline float __half2float(__half value) {
    return value;
}
inline __half __ushort_as_half(unsigned short bits) {
    __half value;
    value.kept.bits = bits;
    return value;
}
inline unsigned short __half_as_ushort(__half value) {
    return value.kept.bits;
}
inline __half2 __floats2half2_rn(float x, float y) {
    return {x, y};
}
inline __half2 __float22half2_rn(float2 both) {
    return {both.x, both.y};
}
inline float2 __half22float2(__half2 both) {
    return {both.x, both.y};
}
inline __half2 __halves2half2(__half x, __half y) {
    return {x, y};
}
