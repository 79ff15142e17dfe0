// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/float16.hpp"
#include "ddprun/float8.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ddprun {

/// The element types of collectives. The numbers are part of the C interface.
enum class ElementType : int {
    float32 = 0,
    float64 = 1,
    float16 = 2,
    bfloat16 = 3,
    int32 = 4,
    int64 = 5,
    uint8 = 6,
    int8 = 7,
    uint32 = 8,
    uint64 = 9,
    boolean = 10,  ///< a byte, 0 or 1
    float8_e4m3 = 11,
    float8_e5m2 = 12,
};

/// How all_reduce, reduce and reduce_scatter combine elements. The numbers are part of the C
/// interface.
///
/// Elements are combined in the order of ranks. Integers wrap around; their average is rounded
/// towards zero. A NaN on any rank gives a NaN, also with min and max. Floats of 8 and 16 bits are
/// combined as floats on the cpu. For bools, sum and max are a logical or, product and min a
/// logical and; average is refused. On nccl, reductions of 8-bit floats need NCCL 2.24 (with
/// an older NCCL they are refused) and a GPU of compute capability 9.0.
enum class Op : int { sum = 0, average = 1, min = 2, max = 3, product = 4 };

namespace detail {

template <class T, class... Others>
constexpr bool is_any_of = (std::is_same_v<T, Others> || ...);

template <class T>
constexpr ElementType element_type_of() {
    constexpr bool is_signed = is_any_of<T, int, long, long long>;
    constexpr bool is_unsigned = is_any_of<T, unsigned, unsigned long, unsigned long long>;
    constexpr bool is_short = sizeof(T) == sizeof(std::int32_t);
    if constexpr (std::is_same_v<T, float>) {
        return ElementType::float32;
    } else if constexpr (std::is_same_v<T, double>) {
        return ElementType::float64;
    } else if constexpr (std::is_same_v<T, Float16>) {
        return ElementType::float16;
    } else if constexpr (std::is_same_v<T, BFloat16>) {
        return ElementType::bfloat16;
    } else if constexpr (std::is_same_v<T, Float8E4M3>) {
        return ElementType::float8_e4m3;
    } else if constexpr (std::is_same_v<T, Float8E5M2>) {
        return ElementType::float8_e5m2;
    } else if constexpr (is_signed) {
        return is_short ? ElementType::int32 : ElementType::int64;
    } else if constexpr (is_unsigned) {
        return is_short ? ElementType::uint32 : ElementType::uint64;
    } else if constexpr (std::is_same_v<T, signed char>) {
        return ElementType::int8;
    } else if constexpr (std::is_same_v<T, bool>) {
        return ElementType::boolean;
    } else if constexpr (is_any_of<T, unsigned char, std::byte>) {
        return ElementType::uint8;
    } else {
        static_assert(
            sizeof(T) == 0,
            "ddprun: collectives carry float, double, ddprun::Float16, ddprun::BFloat16, "
            "ddprun::Float8E4M3, ddprun::Float8E5M2, signed and unsigned integers of 8, 32 and 64 "
            "bits, std::byte and bool. Convert other elements: char to unsigned char or signed "
            "char, 16 bit integers to std::int32_t.");
        return ElementType::uint8;
    }
}

}  // namespace detail

/// The element type of a C++ type; collectives accept no other type.
template <class T>
struct ElementTypeOf {
    static constexpr ElementType value = detail::element_type_of<T>();
};

}  // namespace ddprun
