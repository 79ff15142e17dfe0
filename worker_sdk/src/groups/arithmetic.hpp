// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/element_type.hpp"

#include <cstdint>
#include <type_traits>

/// The element operations of the reductions. Floats of 8 and 16 bits are combined as floats;
/// integers wrap around, so they are combined without a sign.
namespace ddprun::groups {

/// The type in which elements of type T are computed.
template <class T>
struct WideOf {
    using type = T;
};
template <>
struct WideOf<Float16> {
    using type = float;
};
template <>
struct WideOf<BFloat16> {
    using type = float;
};
template <>
struct WideOf<Float8E4M3> {
    using type = float;
};
template <>
struct WideOf<Float8E5M2> {
    using type = float;
};
template <class T>
using Wide = typename WideOf<T>::type;

template <class T>
Wide<T> widen(T value) {
    return static_cast<Wide<T>>(value);
}

template <class T>
T narrow(Wide<T> value) {
    return static_cast<T>(value);
}

struct Sum {
    template <class T>
    static T apply(T a, T b) {
        if constexpr (std::is_same_v<T, bool>) {
            return a || b;
        } else if constexpr (std::is_integral_v<T>) {
            using U = std::make_unsigned_t<T>;
            return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
        } else {
            return a + b;
        }
    }
};

struct Product {
    template <class T>
    static T apply(T a, T b) {
        if constexpr (std::is_same_v<T, bool>) {
            return a && b;
        } else if constexpr (std::is_integral_v<T>) {
            const auto product = static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
            return static_cast<T>(static_cast<std::make_unsigned_t<T>>(product));
        } else {
            return a * b;
        }
    }
};

/// Returns `a` when it is NaN, because then no comparison is true; `b` when `b` is NaN.
struct Minimum {
    template <class T>
    static T apply(T a, T b) {
        return b < a || b != b ? b : a;
    }
};

struct Maximum {
    template <class T>
    static T apply(T a, T b) {
        return b > a || b != b ? b : a;
    }
};

/// The average of a sum over `world_size` ranks.
template <class T>
T divided(T sum, int world_size) {
    if constexpr (std::is_unsigned_v<T>)
        return static_cast<T>(sum / static_cast<std::uint64_t>(world_size));
    else if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<std::int64_t>(sum) / world_size);
    else
        return sum / static_cast<T>(world_size);
}

/// Calls `call` with a value of the C++ type.
template <class Call>
auto with_type(ElementType type, Call call) {
    switch (type) {
        case ElementType::float32: return call(float{});
        case ElementType::float64: return call(double{});
        case ElementType::float16: return call(Float16{});
        case ElementType::bfloat16: return call(BFloat16{});
        case ElementType::int32: return call(std::int32_t{});
        case ElementType::int64: return call(std::int64_t{});
        case ElementType::int8: return call(std::int8_t{});
        case ElementType::uint32: return call(std::uint32_t{});
        case ElementType::uint64: return call(std::uint64_t{});
        case ElementType::boolean: return call(bool{});
        case ElementType::float8_e4m3: return call(Float8E4M3{});
        case ElementType::float8_e5m2: return call(Float8E5M2{});
        case ElementType::uint8: break;
    }
    return call(std::uint8_t{});
}

}  // namespace ddprun::groups
