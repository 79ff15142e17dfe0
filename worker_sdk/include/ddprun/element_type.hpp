// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/float16.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

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

namespace detail {

template <class T, class... Others>
constexpr bool is_any_of = (std::is_same_v<T, Others> || ...);

template <class T>
constexpr ElementType element_type_of() {
    constexpr bool is_integer = is_any_of<T, int, long, long long>;
    if constexpr (std::is_same_v<T, float>) {
        return ElementType::float32;
    } else if constexpr (std::is_same_v<T, double>) {
        return ElementType::float64;
    } else if constexpr (std::is_same_v<T, Float16>) {
        return ElementType::float16;
    } else if constexpr (std::is_same_v<T, BFloat16>) {
        return ElementType::bfloat16;
    } else if constexpr (is_integer && sizeof(T) == sizeof(std::int32_t)) {
        return ElementType::int32;
    } else if constexpr (is_integer) {
        return ElementType::int64;
    } else if constexpr (is_any_of<T, unsigned char, std::byte>) {
        return ElementType::uint8;
    } else {
        static_assert(
            sizeof(T) == 0,
            "ddprun: collectives carry float, double, ddprun::Float16, ddprun::BFloat16, 32 and 64 "
            "bit signed integers, and bytes (unsigned char, std::byte). Convert other elements: "
            "std::size_t and unsigned to std::int64_t, bool and signed char to unsigned char or "
            "std::int32_t.");
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
