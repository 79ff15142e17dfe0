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
