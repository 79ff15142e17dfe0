// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace ddprun {

namespace float16_detail {

inline std::uint32_t bits_of(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float float_of(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace float16_detail

/// The upper half of a float: the same range, but 8 bits of precision. Only for storing and
/// sending; compute in float. Rounded to nearest, ties to even. Has the usual bfloat16 layout.
struct BFloat16 {
    std::uint16_t bits = 0;

    BFloat16() = default;
    /// Compares bits: unlike floats, zeros of both signs differ, and a NaN equals itself.
    friend bool operator==(BFloat16 one, BFloat16 other) { return one.bits == other.bits; }
    friend bool operator!=(BFloat16 one, BFloat16 other) { return one.bits != other.bits; }
    explicit BFloat16(float value) {
        const auto whole = float16_detail::bits_of(value);
        const auto rounded = (whole + 0x7fff + ((whole >> 16) & 1)) >> 16;
        const bool is_nan = (whole & 0x7fffffff) > 0x7f800000;
        bits = static_cast<std::uint16_t>(is_nan ? (whole >> 16) | 0x40 : rounded);
    }
    explicit operator float() const {
        return float16_detail::float_of(static_cast<std::uint32_t>(bits) << 16);
    }
};

/// IEEE half precision: 11 bits of precision, up to 65504. Only for storing and sending; compute in
/// float. Rounded to nearest, ties to even; values of 65520 and more become infinity.
struct Float16 {
    std::uint16_t bits = 0;

    Float16() = default;
    /// Compares bits: unlike floats, zeros of both signs differ, and a NaN equals itself.
    friend bool operator==(Float16 one, Float16 other) { return one.bits == other.bits; }
    friend bool operator!=(Float16 one, Float16 other) { return one.bits != other.bits; }
    explicit Float16(float value) {
        using namespace float16_detail;
        const auto whole = bits_of(value);
        const auto sign = (whole >> 16) & 0x8000;
        const auto magnitude = whole & 0x7fffffff;
        // Normal numbers: the exponent is moved, then rounded as above.
        const auto ordinary = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
        // Below the smallest normal number: adding 0.5 makes the FPU round at the right bit.
        const auto small = bits_of(float_of(magnitude) + 0.5F) - 0x3f000000;
        const auto large = magnitude > 0x7f800000 ? 0x7e00U : 0x7c00U;
        const auto finite = magnitude < 0x38800000 ? small : ordinary;
        bits = static_cast<std::uint16_t>(sign | (magnitude >= 0x47800000 ? large : finite));
    }
    explicit operator float() const {
        using namespace float16_detail;
        const auto sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
        const auto magnitude = static_cast<std::uint32_t>(bits & 0x7fff);
        // Multiplying by 2^112 corrects the exponent, for subnormal numbers too.
        const auto finite = bits_of(float_of(magnitude << 13) * 5.192296858534828e33F);
        const auto special = 0x7f800000 | (magnitude << 13);
        return float_of(sign | (magnitude >= 0x7c00 ? special : finite));
    }
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2, "as others keep them");

}  // namespace ddprun
