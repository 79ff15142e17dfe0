// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.hpp"

#include <string.h>

#include <type_traits>

namespace cifar {

__device__ inline float widened(Bf16 bits) {
    const unsigned wide = static_cast<unsigned>(bits) << 16U;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/// Rounds to nearest, ties to even; a NaN stays a NaN.
__device__ inline Bf16 narrowed(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<Bf16>(bits >> 16U | 0x40U);
    return static_cast<Bf16>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

/// Whether a kernel has the type by which the host calls it.
template <class Signature, class Kernel>
inline constexpr bool agrees = std::is_same_v<Kernel, Signature>;

}  // namespace cifar
