// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/elementwise.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace ddprun;
using namespace ddprun::groups;

namespace {

template <class T>
std::vector<T> combined(Op op, std::vector<T> a, const std::vector<T>& b) {
    combiner(ElementTypeOf<T>::value, op)(a.data(), a.data(), b.data(), a.size());
    return a;
}

const float infinity = std::numeric_limits<float>::infinity();
const float nan_value = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("elements are combined as their type says, integers wrapping around") {
    using Bytes = std::vector<std::uint8_t>;
    using Words = std::vector<std::int32_t>;
    const auto most = std::numeric_limits<std::int32_t>::max();

    CHECK(combined<float>(Op::sum, {1, 2}, {3, -4}) == std::vector<float>{4, -2});
    CHECK(combined<double>(Op::product, {1.5}, {4}) == std::vector<double>{6});
    CHECK(combined(Op::min, Words{1, -2}, {0, 5}) == Words{0, -2});
    CHECK(combined(Op::max, Words{1, -2}, {0, 5}) == Words{1, 5});
    CHECK(combined(Op::sum, Words{most}, {1}) == Words{std::numeric_limits<std::int32_t>::min()});
    CHECK(combined(Op::product, Words{-3, most}, {7, 2}) == Words{-21, -2});
    CHECK(combined(Op::sum, Bytes{200}, {100}) == Bytes{44});
    CHECK(combined(Op::product, Bytes{20}, {20}) == Bytes{144});
}

TEST_CASE("unsigned integers and bools are combined as what they are") {
    using Unsigned = std::vector<std::uint64_t>;
    const auto most = std::numeric_limits<std::uint64_t>::max();
    const auto of_bools = [](Op op) {
        const bool a[] = {false, false, true, true};
        const bool b[] = {false, true, false, true};
        bool out[4];
        combiner(ElementType::boolean, op)(out, a, b, 4);
        return std::vector<bool>(out, out + 4);
    };

    CHECK(combined(Op::max, Unsigned{most, 1}, {0, 5}) == Unsigned{most, 5});
    CHECK(combined(Op::sum, Unsigned{most}, {2}) == Unsigned{1});
    Unsigned sum{most};
    divide(sum.data(), 1, ElementType::uint64, 2);
    CHECK(sum.front() == most / 2);
    CHECK(combined(Op::min, std::vector<std::int8_t>{-3}, {2}) == std::vector<std::int8_t>{-3});
    for (const auto op : {Op::sum, Op::max})
        CHECK(of_bools(op) == std::vector<bool>{false, true, true, true});
    for (const auto op : {Op::product, Op::min})
        CHECK(of_bools(op) == std::vector<bool>{false, false, false, true});
}

TEST_CASE("8-bit floats: values, rounding to even, and saturation") {
    CHECK(float(Float8E4M3(448.0F)) == 448);
    CHECK(float(Float8E4M3(1e9F)) == 448);
    CHECK(float(Float8E4M3(-infinity)) == -448);
    CHECK(std::isnan(float(Float8E4M3(nan_value))));
    CHECK(float(Float8E5M2(1e9F)) == 57344);
    CHECK(std::isnan(float(Float8E5M2(nan_value))));
    // Spacing 1/8 from 1 on, then 1/4; halves go to the even one.
    CHECK(float(Float8E4M3(1.0625F)) == 1);
    CHECK(float(Float8E4M3(1.1875F)) == 1.25F);
    CHECK(float(Float8E5M2(1.125F)) == 1);
    CHECK(float(Float8E5M2(1.375F)) == 1.5F);
    CHECK(float(Float8E4M3(1.9999F)) == 2);  // carries into the exponent
    // The smallest: 2^-9 and 2^-16; half of it is 0, more is not.
    CHECK(float(Float8E4M3(std::ldexp(1.0F, -10))) == 0);
    CHECK(float(Float8E4M3(std::ldexp(1.5F, -10))) == std::ldexp(1.0F, -9));
    CHECK(float(Float8E5M2(std::ldexp(1.5F, -17))) == std::ldexp(1.0F, -16));
    CHECK(std::signbit(float(Float8E4M3(-0.0F))));
}

TEST_CASE("every 8-bit float survives a float and back") {
    for (int bits = 0; bits <= 0xff; ++bits) {
        Float8E4M3 fine;
        Float8E5M2 wide;
        fine.bits = wide.bits = static_cast<std::uint8_t>(bits);
        if (!std::isnan(float(fine))) CHECK(Float8E4M3(float(fine)).bits == fine.bits);
        // Infinity becomes the largest.
        if (!std::isnan(float(wide)) && !std::isinf(float(wide)))
            CHECK(Float8E5M2(float(wide)).bits == wide.bits);
        CHECK(std::isnan(float(fine)) == ((bits & 0x7f) == 0x7f));
        CHECK(std::isnan(float(wide)) == ((bits & 0x7f) > 0x7c));
        CHECK(std::isinf(float(wide)) == ((bits & 0x7f) == 0x7c));
    }
}

TEST_CASE("a NaN on either side is a NaN in the result of every operation") {
    for (const auto op : {Op::sum, Op::average, Op::min, Op::max, Op::product}) {
        const auto result = combined<float>(op, {nan_value, 1, 1}, {1, nan_value, 1});
        CHECK(std::isnan(result[0]));
        CHECK(std::isnan(result[1]));
        CHECK(!std::isnan(result[2]));
    }
}

TEST_CASE("every 16-bit float survives a float and back") {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        Float16 half;
        half.bits = static_cast<std::uint16_t>(bits);
        BFloat16 brain;
        brain.bits = half.bits;
        const bool half_is_nan = (bits & 0x7fff) > 0x7c00;
        const bool brain_is_nan = (bits & 0x7fff) > 0x7f80;
        if (half_is_nan != std::isnan(float(half)) || brain_is_nan != std::isnan(float(brain)))
            FAIL("NaN changed: " << bits);
        if (!half_is_nan && Float16(float(half)).bits != bits) FAIL("float16 changed: " << bits);
        if (!brain_is_nan && BFloat16(float(brain)).bits != bits)
            FAIL("bfloat16 changed: " << bits);
        if (half_is_nan && !std::isnan(float(Float16(float(half))))) FAIL("NaN lost: " << bits);
        if (brain_is_nan && !std::isnan(float(BFloat16(float(brain))))) FAIL("NaN lost: " << bits);
    }
}

TEST_CASE("16-bit floats are rounded to the nearest, ties to even, and overflow to infinity") {
    const auto half = [](float value) { return float(Float16(value)); };
    const auto brain = [](float value) { return float(BFloat16(value)); };

    CHECK(half(1.0F + 1.0F / 2048) == 1.0F);
    CHECK(half(1.0F + 3.0F / 2048) == 1.0F + 4.0F / 2048);
    CHECK(half(1.0F + 1.1F / 2048) == 1.0F + 2.0F / 2048);
    CHECK(half(65519.0F) == 65504.0F);
    CHECK(half(65520.0F) == infinity);
    CHECK(half(-1e30F) == -infinity);
    CHECK(half(infinity) == infinity);
    CHECK(half(std::ldexp(1.0F, -24)) == std::ldexp(1.0F, -24));
    CHECK(half(std::ldexp(1.0F, -25)) == 0.0F);
    CHECK(half(std::ldexp(1.1F, -25)) == std::ldexp(1.0F, -24));
    CHECK(half(std::ldexp(0.9999F, -14)) == std::ldexp(1.0F, -14));
    CHECK(brain(1.0F + 1.0F / 256) == 1.0F);
    CHECK(brain(1.0F + 3.0F / 256) == 1.0F + 4.0F / 256);
    CHECK(brain(std::numeric_limits<float>::max()) == infinity);
}

TEST_CASE("16-bit floats are combined as floats and rounded once") {
    const auto sum = combined<Float16>(Op::sum, {Float16(2048)}, {Float16(3)});
    CHECK(float(sum[0]) == 2052.0F);
}
