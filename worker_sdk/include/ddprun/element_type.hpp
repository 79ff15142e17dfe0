// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/float16.hpp"

#include <cstddef>
#include <cstdint>

namespace ddprun {

/// What collectives can carry. The numbers are part of the C interface.
enum class ElementType : int {
    float32 = 0,
    float64 = 1,
    float16 = 2,
    bfloat16 = 3,
    int32 = 4,
    int64 = 5,
    uint8 = 6,
};

/// How all_reduce, reduce and reduce_scatter combine elements. The numbers are part of the C
/// interface.
///
/// Always in the order of ranks. Integers wrap around; their average is rounded towards zero. A NaN
/// on any rank gives a NaN, also with min and max.
enum class Op : int { sum = 0, average = 1, min = 2, max = 3, product = 4 };

/// The element type of a C++ type; collectives accept no other type.
template <class T>
struct ElementTypeOf;
template <>
struct ElementTypeOf<float> {
    static constexpr ElementType value = ElementType::float32;
};
template <>
struct ElementTypeOf<double> {
    static constexpr ElementType value = ElementType::float64;
};
template <>
struct ElementTypeOf<Float16> {
    static constexpr ElementType value = ElementType::float16;
};
template <>
struct ElementTypeOf<BFloat16> {
    static constexpr ElementType value = ElementType::bfloat16;
};
template <>
struct ElementTypeOf<std::int32_t> {
    static constexpr ElementType value = ElementType::int32;
};
template <>
struct ElementTypeOf<std::int64_t> {
    static constexpr ElementType value = ElementType::int64;
};
template <>
struct ElementTypeOf<std::uint8_t> {
    static constexpr ElementType value = ElementType::uint8;
};
template <>
struct ElementTypeOf<std::byte> {
    static constexpr ElementType value = ElementType::uint8;
};

}  // namespace ddprun
