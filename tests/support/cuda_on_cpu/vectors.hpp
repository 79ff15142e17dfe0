// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// CUDA's vector types. Names and alignments are CUDA's.

struct dim3 {
    unsigned x = 1;
    unsigned y = 1;
    unsigned z = 1;
};

namespace cuda_on_cpu {

template <class T>
struct alignas(2 * sizeof(T)) Pair {
    T x;
    T y;
};

template <class T>
struct Triple {
    T x;
    T y;
    T z;
};

template <class T>
struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) Four {
    T x;
    T y;
    T z;
    T w;
};

}  // namespace cuda_on_cpu

using char2 = cuda_on_cpu::Pair<signed char>;
using uchar2 = cuda_on_cpu::Pair<unsigned char>;
using short2 = cuda_on_cpu::Pair<short>;
using ushort2 = cuda_on_cpu::Pair<unsigned short>;
using int2 = cuda_on_cpu::Pair<int>;
using uint2 = cuda_on_cpu::Pair<unsigned>;
using longlong2 = cuda_on_cpu::Pair<long long>;
using ulonglong2 = cuda_on_cpu::Pair<unsigned long long>;
using float2 = cuda_on_cpu::Pair<float>;
using double2 = cuda_on_cpu::Pair<double>;
using int3 = cuda_on_cpu::Triple<int>;
using uint3 = cuda_on_cpu::Triple<unsigned>;
using float3 = cuda_on_cpu::Triple<float>;
using char4 = cuda_on_cpu::Four<signed char>;
using uchar4 = cuda_on_cpu::Four<unsigned char>;
using short4 = cuda_on_cpu::Four<short>;
using ushort4 = cuda_on_cpu::Four<unsigned short>;
using int4 = cuda_on_cpu::Four<int>;
using uint4 = cuda_on_cpu::Four<unsigned>;
using float4 = cuda_on_cpu::Four<float>;

inline int2 make_int2(int x, int y) {
    return {x, y};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
inline float2 make_float2(float x, float y) {
    return {x, y};
}
inline double2 make_double2(double x, double y) {
    return {x, y};
}
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) {
    return {x, y, z};
}
inline float3 make_float3(float x, float y, float z) {
    return {x, y, z};
}
inline int4 make_int4(int x, int y, int z, int w) {
    return {x, y, z, w};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
inline uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) {
    return {x, y, z, w};
}
inline ushort4 make_ushort4(
    unsigned short x, unsigned short y, unsigned short z, unsigned short w) {
    return {x, y, z, w};
}
