// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <math.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <type_traits>

// CUDA's math functions that <math.h> does not have. The fast ones are exact here, so tests that
// compare with a GPU need a tolerance.

template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
    using Both = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<Both>)
        return static_cast<Both>(std::fmin(static_cast<Both>(a), static_cast<Both>(b)));
    else
        return static_cast<Both>(b) < static_cast<Both>(a) ? static_cast<Both>(b)
                                                           : static_cast<Both>(a);
}

template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
    using Both = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<Both>)
        return static_cast<Both>(std::fmax(static_cast<Both>(a), static_cast<Both>(b)));
    else
        return static_cast<Both>(a) < static_cast<Both>(b) ? static_cast<Both>(b)
                                                           : static_cast<Both>(a);
}

inline float rsqrtf(float x) {
    return 1.0F / std::sqrt(x);
}
inline double rsqrt(double x) {
    return 1.0 / std::sqrt(x);
}
inline float sinpif(float x) {
    return static_cast<float>(std::sin(3.14159265358979323846 * static_cast<double>(x)));
}
inline float cospif(float x) {
    return static_cast<float>(std::cos(3.14159265358979323846 * static_cast<double>(x)));
}
inline float fdividef(float a, float b) {
    return a / b;
}
inline float __fdividef(float a, float b) {
    return a / b;
}
inline float __expf(float x) {
    return std::exp(x);
}
inline float __exp10f(float x) {
    return std::pow(10.0F, x);
}
inline float __logf(float x) {
    return std::log(x);
}
inline float __log2f(float x) {
    return std::log2(x);
}
inline float __log10f(float x) {
    return std::log10(x);
}
inline float __powf(float x, float y) {
    return std::pow(x, y);
}
inline float __sinf(float x) {
    return std::sin(x);
}
inline float __cosf(float x) {
    return std::cos(x);
}
inline void __sincosf(float x, float* sine, float* cosine) {
    *sine = std::sin(x);
    *cosine = std::cos(x);
}
inline float __tanf(float x) {
    return std::tan(x);
}
inline float __saturatef(float x) {
    return x >= 0.0F ? (x > 1.0F ? 1.0F : x) : 0.0F;
}
inline float __frcp_rn(float x) {
    return 1.0F / x;
}
inline float __fsqrt_rn(float x) {
    return std::sqrt(x);
}
inline float __frsqrt_rn(float x) {
    return 1.0F / std::sqrt(x);
}
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline float __fsub_rn(float a, float b) {
    return a - b;
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fdiv_rn(float a, float b) {
    return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
    return std::fma(a, b, c);
}
inline double __dadd_rn(double a, double b) {
    return a + b;
}
inline double __dmul_rn(double a, double b) {
    return a * b;
}
inline double __dsqrt_rn(double x) {
    return std::sqrt(x);
}
inline double __ddiv_rn(double a, double b) {
    return a / b;
}
inline double __fma_rn(double a, double b, double c) {
    return std::fma(a, b, c);
}

inline int __float2int_rn(float x) {
    return static_cast<int>(std::nearbyint(x));
}
inline int __float2int_rz(float x) {
    return static_cast<int>(x);
}
inline int __float2int_rd(float x) {
    return static_cast<int>(std::floor(x));
}
inline unsigned __float2uint_rz(float x) {
    return static_cast<unsigned>(x);
}
inline unsigned __float2uint_rn(float x) {
    return static_cast<unsigned>(std::nearbyint(x));
}
inline float __int2float_rn(int x) {
    return static_cast<float>(x);
}
inline float __uint2float_rn(unsigned x) {
    return static_cast<float>(x);
}
inline float __double2float_rn(double x) {
    return static_cast<float>(x);
}

inline unsigned __float_as_uint(float x) {
    return std::bit_cast<unsigned>(x);
}
inline int __float_as_int(float x) {
    return std::bit_cast<int>(x);
}
inline float __uint_as_float(unsigned x) {
    return std::bit_cast<float>(x);
}
inline float __int_as_float(int x) {
    return std::bit_cast<float>(x);
}
inline long long __double_as_longlong(double x) {
    return std::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
    return std::bit_cast<double>(x);
}

inline int __popc(unsigned x) {
    return std::popcount(x);
}
inline int __popcll(unsigned long long x) {
    return std::popcount(x);
}
inline int __clz(int x) {
    return std::countl_zero(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
    return std::countl_zero(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) {
    return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1;
}
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit)
        reversed |= ((x >> bit) & 1U) << (31 - bit);
    return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>((std::uint64_t{a} * b) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<unsigned long long>((static_cast<Wide>(a) * b) >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((((std::uint64_t{high} << 32) | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>(((std::uint64_t{high} << 32) | low) >> (shift & 31));
}
