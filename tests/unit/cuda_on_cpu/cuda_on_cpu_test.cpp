// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_on_cpu/kernel.hpp"
#include "worker_sdk/include/ddprun/float16.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

using cuda_on_cpu::launch;

TEST_CASE("a kernel on the CPU: each thread of each block runs once, and knows where it is") {
    std::vector<unsigned> out(2 * 3 * 2 * 4 * 2 * 3, 7);

    REQUIRE(launch("test_where", {{2, 3, 2}, {4, 2, 3}}, out.data()));

    for (unsigned i = 0; i < out.size(); ++i)
        CHECK(out[i] == i / 24 * 1000 + i % 24);
}

TEST_CASE("a kernel on the CPU: threads of a block wait for each other") {
    for (const unsigned threads : {1U, 2U, 64U, 1024U}) {
        CAPTURE(threads);
        const unsigned count = threads + threads / 2;
        std::vector<float> data(count, 1.0F);

        REQUIRE(launch(
            "test_block_sum", {{2}, {threads}, threads * sizeof(float)}, data.data(), count));

        CHECK(data.front() == static_cast<float>(threads));
        CHECK(data.back() == static_cast<float>(count > threads ? threads / 2 : threads));
    }
}

TEST_CASE("a kernel on the CPU: warps shuffle, threads end early, blocks add atomically") {
    std::vector<int> data(1000);
    std::iota(data.begin(), data.end(), 1);
    int sum = 0;

    REQUIRE(launch(
        "test_grid_sum",
        {{4}, {256}},
        static_cast<const int*>(data.data()),
        static_cast<int>(data.size()),
        &sum));

    CHECK(sum == 500500);
}

TEST_CASE("a kernel on the CPU: lanes that diverge hear their own part of the warp") {
    std::vector<unsigned> ballots(32);
    std::vector<int> rotated(32);
    std::vector<int> swapped(32);

    REQUIRE(launch("test_lanes", {{1}, {32}}, ballots.data(), rotated.data(), swapped.data()));

    CHECK(ballots[5] == 0b1001001001001001);
    CHECK(ballots[20] == 0x55550000);
    CHECK(rotated[3] == 40);
    CHECK(rotated[15] == 0);
    CHECK(rotated[16] == 160);
    CHECK(rotated[20] == 190);
    CHECK(swapped[7] == 6);
    CHECK(swapped[30] == 31);
}

TEST_CASE("a kernel on the CPU: bfloat16 is rounded as everywhere") {
    const std::vector<float> from{0.0F, 1.0F, -2.5F, 1.00390625F, 3.4e38F};
    std::vector<ddprun::BFloat16> to(from.size());
    std::vector<float> back(from.size());

    REQUIRE(launch(
        "test_bf16",
        {{1}, {3}},
        from.data(),
        to.data(),
        back.data(),
        static_cast<int>(from.size())));

    for (std::size_t i = 0; i < from.size(); ++i) {
        CHECK(to[i].bits == ddprun::BFloat16{from[i]}.bits);
        CHECK(back[i] == static_cast<float>(to[i]));
    }
}

TEST_CASE("a kernel on the CPU: a wrong name or other arguments are no launch") {
    int value = 0;
    CHECK_FALSE(launch("test_nothing", {}, &value));
    CHECK_FALSE(launch("test_where", {}, &value, 1));
    CHECK_FALSE(launch("test_where", {}, 1));
}
