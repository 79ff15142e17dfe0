// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace ddprun {

namespace float8_detail {

/// A sign, an exponent and a mantissa in one byte. `most` is the largest finite magnitude; the
/// codes above it are infinity, where the format has one, and NaN.
template <int mantissa_bits, int bias, int most, bool has_infinity>
struct Layout {
    static constexpr int nan = 0x7f;

    static float decoded(int bits) {
        const int magnitude = bits & 0x7f;
        const float sign = (bits & 0x80) != 0 ? -1.0F : 1.0F;
        if (has_infinity && magnitude == most + 1)
            return sign * std::numeric_limits<float>::infinity();
        if (magnitude > most) return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
        const int exponent = magnitude >> mantissa_bits;
        const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
        const int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
        const int power = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
        return sign * std::ldexp(static_cast<float>(whole), power);
    }

    static int encoded(float value) {
        const int sign = std::signbit(value) ? 0x80 : 0;
        const float size = std::fabs(value);
        if (std::isnan(value)) return sign | nan;
        if (size >= decoded(most)) return sign | most;
        const int power = size == 0 ? 1 - bias : std::ilogb(size);
        const int exponent = power < 1 - bias ? 1 - bias : power;
        // Counts in units of the last place, including the bit before the point. When rounding
        // carries, the carry increments the exponent, which is correct.
        const float units = std::ldexp(size, mantissa_bits - exponent);
        const int whole = static_cast<int>(units);
        const float rest = units - static_cast<float>(whole);
        const bool is_up = rest > 0.5F || (rest == 0.5F && whole % 2 == 1);
        const int above = exponent + bias - 1;
        return sign | ((above << mantissa_bits) + whole + (is_up ? 1 : 0));
    }
};

}  // namespace float8_detail

/// 8 bits with 4 of exponent: up to 448, 4 bits of precision, a NaN and no infinity ("e4m3fn").
/// Only for storing and sending; compute in float. Rounded to nearest, ties to even; larger values
/// become the largest finite one, as in CUDA.
struct Float8E4M3 {
    using Layout = float8_detail::Layout<3, 7, 0x7e, false>;
    std::uint8_t bits = 0;

    Float8E4M3() = default;
    explicit Float8E4M3(float value) : bits(static_cast<std::uint8_t>(Layout::encoded(value))) {}
    explicit operator float() const { return Layout::decoded(bits); }
};

/// 8 bits with 5 of exponent: up to 57344, 3 bits of precision. Otherwise like Float8E4M3; infinity
/// also becomes the largest value.
struct Float8E5M2 {
    using Layout = float8_detail::Layout<2, 15, 0x7b, true>;
    std::uint8_t bits = 0;

    Float8E5M2() = default;
    explicit Float8E5M2(float value) : bits(static_cast<std::uint8_t>(Layout::encoded(value))) {}
    explicit operator float() const { return Layout::decoded(bits); }
};

static_assert(sizeof(Float8E4M3) == 1 && sizeof(Float8E5M2) == 1, "as others keep them");

}  // namespace ddprun
