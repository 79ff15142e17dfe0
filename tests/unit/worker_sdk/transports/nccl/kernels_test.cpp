// SPDX-License-Identifier: Apache-2.0
// The nccl backend's kernels, on the CPU, against plain C++.
#include "ddprun/float16.hpp"
#include "tests/support/cuda_on_cpu/kernel.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

using cuda_on_cpu::launch;
using ddprun::BFloat16;
using ddprun::Float16;

namespace {

using Count = unsigned long long;
using Limits = std::numeric_limits<float>;

/// The number that DeviceKernels uses.
constexpr unsigned threads = 256;

cuda_on_cpu::Shape blocks(unsigned count) {
    return {{count}, {threads}};
}

/// Numbers that are hard to round, followed by arbitrary ones.
std::vector<float> numbers(std::size_t count) {
    const std::vector<float> hard{
        0.0F,
        -0.0F,
        1.0F,
        1.00390625F,     // between two bfloat16, the even one is below
        1.01171875F,     // ... above
        1.00048828125F,  // between two float16, the even one is below
        1.00146484375F,  // ... above
        65504.0F,        // the greatest float16
        65519.9F,
        65520.0F,       // rounds to infinity there
        6.1035156e-5F,  // the smallest ordinary float16
        6.0e-5F,
        5.9604645e-8F,  // the smallest float16
        2.9802322e-8F,  // half of it
        Limits::denorm_min(),
        Limits::min(),
        Limits::max(),
        -Limits::max(),
        Limits::infinity(),
        -Limits::infinity(),
        Limits::quiet_NaN()};
    std::mt19937 random{7};
    std::vector<float> all(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto bits = static_cast<std::uint32_t>(random());
        std::memcpy(&all[i], &bits, sizeof bits);
        if (i < hard.size()) all[i] = hard[i];
    }
    return all;
}

std::vector<float> gradients(std::size_t count) {
    std::mt19937 random{11};
    std::normal_distribution<float> normal;
    std::vector<float> all(count);
    for (auto& one : all)
        one = normal(random);
    return all;
}

constexpr std::size_t counts[]{0, 1, 2, 21, 255, 256, 257, 5001};

template <class Half>
void check_compression(const std::string& name) {
    for (const auto count : counts) {
        CAPTURE(count);
        const auto from = numbers(count);
        // One more element, which must not change.
        std::vector<std::uint16_t> halves(count + 1, 0x1234);
        std::vector<float> back(count + 1, -7.0F);
        for (const float factor : {1.0F, 0.5F}) {
            REQUIRE(launch(
                ("ddprun_to_" + name).c_str(),
                blocks(3),
                halves.data(),
                from.data(),
                Count{count},
                factor));
            REQUIRE(launch(
                ("ddprun_from_" + name).c_str(),
                blocks(2),
                back.data(),
                halves.data(),
                Count{count}));
            CHECK(halves[count] == 0x1234);
            CHECK(back[count] == -7.0F);
            for (std::size_t i = 0; i < count; ++i) {
                CAPTURE(from[i]);
                const Half expected{from[i] * factor};
                if (std::isnan(from[i])) {
                    CHECK(std::isnan(back[i]));
                } else {
                    CHECK(halves[i] == expected.bits);
                    CHECK(back[i] == static_cast<float>(expected));
                }
            }
        }
    }
}

/// Runs with this many blocks. Returns the norm; `values` are clipped.
float clip(std::vector<float>& values, float max_norm, unsigned block_count) {
    const Count count = values.size();
    std::vector<double> sums(block_count, -1.0);
    float norm = -1;
    const float* const read = values.data();
    const double* const read_sums = sums.data();
    const float* const read_norm = &norm;
    REQUIRE(launch("ddprun_sum_squares", blocks(block_count), read, count, sums.data()));
    REQUIRE(launch("ddprun_norm_of_sums", blocks(1), read_sums, block_count, &norm));
    REQUIRE(launch("ddprun_clip", blocks(block_count), values.data(), count, read_norm, max_norm));
    return norm;
}

float norm_of(const std::vector<float>& values) {
    long double sum = 0;
    for (const float one : values)
        sum += static_cast<long double>(one) * one;
    return static_cast<float>(std::sqrt(sum));
}

}  // namespace

TEST_CASE("gpu kernels: floats as bfloat16 are rounded to nearest, ties to even, and come back") {
    check_compression<BFloat16>("bfloat16");
}

TEST_CASE("gpu kernels: floats as float16 are rounded to nearest, ties to even, and come back") {
    check_compression<Float16>("float16");
}

TEST_CASE("gpu kernels: the norm is that of all values, however many blocks there are") {
    constexpr float no_bound = Limits::infinity();
    for (const auto count : counts)
        for (const unsigned block_count : {1U, 3U, count > 5000 ? 300U : 2U}) {
            CAPTURE(count);
            CAPTURE(block_count);
            auto values = gradients(count);
            const auto before = values;
            const float norm = clip(values, no_bound, block_count);
            CHECK(norm == doctest::Approx(norm_of(before)).epsilon(1e-6));
            CHECK(values == before);
            CHECK(clip(values, no_bound, block_count) == norm);
        }
}

TEST_CASE("gpu kernels: a norm above the bound is brought to it, one below stays") {
    auto values = gradients(5001);
    const auto before = values;

    const float norm = clip(values, 2.0F, 5);

    CHECK(norm_of(values) == doctest::Approx(2.0F).epsilon(1e-5));
    CHECK(norm_of(values) <= 2.0F);
    for (std::size_t i = 0; i < values.size(); ++i)
        CHECK(values[i] == doctest::Approx(before[i] * 2.0F / norm).epsilon(1e-5));
    const auto clipped = values;
    CHECK(clip(values, 2.1F, 5) == doctest::Approx(2.0F).epsilon(1e-5));
    CHECK(values == clipped);
}

TEST_CASE("gpu kernels: the squares of great gradients are no infinity, NaN and infinity show") {
    std::vector<float> great(100, 1e30F);
    CHECK(clip(great, 1.0F, 2) == doctest::Approx(1e31F));
    CHECK(great[0] == doctest::Approx(0.1F));

    std::vector<float> broken{1.0F, Limits::quiet_NaN(), 2.0F};
    CHECK(std::isnan(clip(broken, 1.0F, 1)));
    CHECK(std::isnan(broken[0]));

    std::vector<float> endless{1.0F, Limits::infinity()};
    CHECK(std::isinf(clip(endless, 1.0F, 1)));
    CHECK(endless[0] == 0.0F);
    CHECK(std::isnan(endless[1]));
}

TEST_CASE(
    "gpu kernels: a step is decided by what the host's word is then, and counted when it is") {
    unsigned commit = 7;
    unsigned is_sound = 1;
    Count count = 0;
    Count steps = 0;
    const unsigned* const read_commit = &commit;
    const auto step = [&] {
        REQUIRE(launch("ddprun_latch", {}, &commit, &is_sound));
        REQUIRE(launch("ddprun_count_step", {}, read_commit, &count, &steps));
    };

    step();
    step();
    CHECK(commit == 1);
    CHECK(steps == 2);

    is_sound = 0;
    step();
    CHECK(commit == 0);
    CHECK(steps == 2);
}
