// SPDX-License-Identifier: Apache-2.0
#include "ddprun/distributed_sampler.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/data/permutation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

using ddprun::DistributedSampler;
using ddprun::data::large_permutation;
using ddprun::data::torch_permutation;
using Indices = std::vector<std::uint64_t>;
using Options = DistributedSampler::Options;

namespace {

Indices of_rank(std::uint64_t samples, int world, int rank, Options options, std::uint64_t epoch) {
    DistributedSampler sampler{samples, world, rank, options};
    sampler.set_epoch(epoch);
    return sampler.indices();
}

Indices counted(std::uint64_t samples) {
    Indices all(samples);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    return all;
}

/// The samples that a job of `world` ranks uses when each takes `steps` samples, in the order of
/// steps.
Indices use(DistributedSampler::State& state, std::uint64_t samples, int world, std::size_t steps) {
    Indices used;
    for (int rank = 0; rank < world; ++rank) {
        DistributedSampler sampler{samples, world, rank};
        sampler.resume(state);
        const auto mine = sampler.indices();
        used.insert(
            used.end(),
            mine.begin(),
            mine.begin() + static_cast<std::ptrdiff_t>(std::min(steps, mine.size())));
    }
    state.consumed += used.size();
    return used;
}

}  // namespace

TEST_CASE("a permutation is torch.randperm's after manual_seed") {
    CHECK(torch_permutation(10, 0) == Indices{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
    CHECK(torch_permutation(10, 1) == Indices{5, 6, 1, 2, 0, 8, 9, 3, 7, 4});
    CHECK(torch_permutation(10, 42) == Indices{2, 6, 1, 8, 4, 5, 0, 9, 3, 7});
    CHECK(torch_permutation(0, 0).empty());
    CHECK(torch_permutation(1, 7) == Indices{0});
}

TEST_CASE("only the low 32 bits of a seed count, as in PyTorch's generator") {
    CHECK(torch_permutation(10, std::uint64_t{1} << 32) == torch_permutation(10, 0));
}

TEST_CASE("the method for hundreds of millions of samples is a permutation too") {
    auto order = large_permutation(1000, 42);
    CHECK(order != counted(1000));

    std::sort(order.begin(), order.end());

    CHECK(order == counted(1000));
}

TEST_CASE("ranks take every R-th element, and the order is repeated until R divides it") {
    // sampler = DistributedSampler(range(10), 4, r, seed=0); list(sampler)
    CHECK(of_rank(10, 4, 0, {}, 0) == Indices{4, 3, 6});
    CHECK(of_rank(10, 4, 1, {}, 0) == Indices{1, 9, 2});
    CHECK(of_rank(10, 4, 2, {}, 0) == Indices{7, 0, 4});
    CHECK(of_rank(10, 4, 3, {}, 0) == Indices{5, 8, 1});
}

TEST_CASE("with drop_last the order is cut instead") {
    const Options drop{.drop_last = true};

    CHECK(of_rank(10, 4, 0, drop, 0) == Indices{4, 3});
    CHECK(of_rank(10, 4, 3, drop, 0) == Indices{5, 8});
    CHECK(of_rank(3, 5, 0, drop, 0).empty());
}

TEST_CASE("fewer samples than ranks are repeated as often as needed") {
    const Options in_order{.shuffle = false};

    CHECK(of_rank(2, 5, 0, in_order, 0) == Indices{0});
    CHECK(of_rank(2, 5, 3, in_order, 0) == Indices{1});
    CHECK(of_rank(2, 5, 4, in_order, 0) == Indices{0});
    CHECK(of_rank(0, 5, 4, in_order, 0).empty());
}

TEST_CASE("the seed of an epoch is seed + epoch") {
    CHECK(of_rank(10, 1, 0, {.seed = 41}, 1) == Indices{2, 6, 1, 8, 4, 5, 0, 9, 3, 7});
    CHECK(of_rank(10, 1, 0, {.seed = 41}, 0) != of_rank(10, 1, 0, {.seed = 41}, 1));
}

TEST_CASE("a rank outside the world is refused with both numbers") {
    for (const auto& [world, rank] : {std::pair{4, 4}, {4, -1}, {0, 0}})
        CHECK_THROWS_AS(DistributedSampler(10, world, rank), ddprun::UsageError);
    CHECK_THROWS_WITH(
        DistributedSampler(10, 4, 4),
        "DistributedSampler: rank 4 in a world of 4; the rank must lie between 0 and world_size - "
        "1");
}

TEST_CASE("a resume with as many ranks continues the epoch, padding included") {
    for (const std::uint64_t samples : {1U, 7U, 10U, 12U, 101U})
        for (int rank = 0; rank < 4; ++rank) {
            DistributedSampler undisturbed{samples, 4, rank};
            undisturbed.set_epoch(3);
            const auto all = undisturbed.indices();

            for (std::uint64_t steps = 0; steps <= all.size(); ++steps) {
                DistributedSampler resumed{samples, 4, rank};
                resumed.resume({0, 3, steps * 4});

                const Indices rest(all.begin() + static_cast<std::ptrdiff_t>(steps), all.end());
                CHECK(resumed.size() == rest.size());
                CHECK(resumed.indices() == rest);
            }
        }
}

TEST_CASE("an epoch uses each sample once, whatever world sizes follow each other") {
    const std::uint64_t samples = 60'001;
    DistributedSampler::State state{42, 5, 0};

    auto used = use(state, samples, 2, 1000);
    for (const auto& more : {use(state, samples, 3, 7000), use(state, samples, 1, 100'000)})
        used.insert(used.end(), more.begin(), more.end());

    std::sort(used.begin(), used.end());
    CHECK(used == counted(samples));
}

TEST_CASE("a resumed epoch that ends with several ranks repeats fewer samples than ranks") {
    const std::uint64_t samples = 102;
    DistributedSampler::State state{42, 5, 0};

    auto used = use(state, samples, 3, 5);
    for (const auto& more : {use(state, samples, 7, 2), use(state, samples, 4, 1000)})
        used.insert(used.end(), more.begin(), more.end());

    CHECK(used.size() == 105);
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    CHECK(used == counted(samples));
}

TEST_CASE("over any sequence of world sizes each sample is used once, apart from the padding") {
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
        CAPTURE(seed);
        std::mt19937 random{seed};
        const std::uint64_t samples = 1 + random() % 2000;
        DistributedSampler::State state{seed, random() % 10, 0};

        Indices used;
        std::uint64_t last_world = 1;
        while (state.consumed < samples) {
            last_world = 1 + random() % 12;
            const auto more = use(state, samples, static_cast<int>(last_world), 1 + random() % 100);
            used.insert(used.end(), more.begin(), more.end());
        }

        CHECK(used.size() < samples + last_world);
        std::sort(used.begin(), used.end());
        used.erase(std::unique(used.begin(), used.end()), used.end());
        CHECK(used == counted(samples));
    }
}

TEST_CASE("advance continues, set_epoch starts again") {
    DistributedSampler sampler{10, 2, 0, {.seed = 9}};
    const auto all = sampler.indices();

    sampler.advance(4);
    CHECK(sampler.state().consumed == 4);
    CHECK(sampler.indices() == Indices(all.begin() + 2, all.end()));

    sampler.set_epoch(0);
    CHECK(sampler.indices() == all);
}

namespace {

/// The samples that a job with these shares uses in `steps` steps, in the order of ranks.
Indices use_shares(
    DistributedSampler::State& state,
    std::uint64_t samples,
    const Indices& shares,
    std::size_t steps) {
    Indices used;
    for (int rank = 0; rank < static_cast<int>(shares.size()); ++rank) {
        DistributedSampler sampler{
            samples, static_cast<int>(shares.size()), rank, {.shares = shares}};
        sampler.resume(state);
        const auto mine = sampler.indices();
        CHECK(mine.size() == sampler.size());
        const auto most = steps * shares[static_cast<std::size_t>(rank)];
        used.insert(
            used.end(),
            mine.begin(),
            mine.begin() + static_cast<std::ptrdiff_t>(std::min(most, mine.size())));
    }
    state.consumed += used.size();
    return used;
}

}  // namespace

TEST_CASE("with shares a step's samples lie one behind the other, in the order of ranks") {
    const Options shares{.shuffle = false, .shares = {3, 1}};

    CHECK(of_rank(10, 2, 0, shares, 0) == Indices{0, 1, 2, 4, 5, 6, 8});
    CHECK(of_rank(10, 2, 1, shares, 0) == Indices{3, 7, 9});
    Options whole = shares;
    whole.drop_last = true;
    CHECK(of_rank(10, 2, 0, whole, 0) == Indices{0, 1, 2, 4, 5, 6});
    CHECK(of_rank(10, 2, 1, whole, 0) == Indices{3, 7});
    CHECK(of_rank(8, 2, 1, {.shares = {1, 1}}, 4) == of_rank(8, 2, 1, {}, 4));
}

TEST_CASE("whatever shares and world sizes follow each other, each sample is used exactly once") {
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
        CAPTURE(seed);
        std::mt19937 random{seed};
        const std::uint64_t samples = random() % 2000;
        DistributedSampler::State state{seed, random() % 10, 0};

        Indices used;
        while (state.consumed < samples) {
            Indices shares(1 + random() % 6);
            for (auto& share : shares)
                share = 1 + random() % 40;
            const auto more = use_shares(state, samples, shares, 1 + random() % 10);
            used.insert(used.end(), more.begin(), more.end());
        }

        std::sort(used.begin(), used.end());
        CHECK(used == counted(samples));
    }
}

TEST_CASE("shares may change at a step") {
    DistributedSampler sampler{10, 2, 0, {.shuffle = false, .shares = {1, 1}}};
    CHECK(sampler.indices() == Indices{0, 2, 4, 6, 8});

    sampler.advance(4);
    sampler.set_shares({2, 1});

    CHECK(sampler.indices() == Indices{4, 5, 7, 8});
    CHECK(sampler.size() == 4);
}

TEST_CASE("shares that make no sense are refused") {
    for (const Indices& shares : {Indices{1}, {1, 2, 3}, {1, 0}, {std::uint64_t{1} << 32, 1}})
        CHECK_THROWS_AS(DistributedSampler(10, 2, 0, {.shares = shares}), ddprun::UsageError);
}

namespace {

/// Whether the step gets shorter when one rank gives a sample to another.
bool has_shorter_step(const std::vector<double>& speeds, const Indices& shares) {
    const auto time = [&](std::size_t rank, std::uint64_t share) {
        return static_cast<double>(share) / speeds[rank];
    };
    std::size_t last = 0;
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
        if (time(rank, shares[rank]) > time(last, shares[last])) last = rank;
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
        if (shares[last] > 1 &&
            time(rank, shares[rank] + 1) < time(last, shares[last]) * (1 - 1e-9))
            return true;
    return false;
}

}  // namespace

TEST_CASE("shares by speed are in proportion, and add up") {
    using ddprun::shares_by_speed;
    CHECK(shares_by_speed({1, 1, 1}, 96) == Indices{32, 32, 32});
    // 302 / 300 is a shorter step than 101 / 100.
    CHECK(shares_by_speed({100, 300}, 402) == Indices{100, 302});
    CHECK(shares_by_speed({900, 100}, 10) == Indices{9, 1});
    CHECK(shares_by_speed({1e308, 1e308}, 4) == Indices{2, 2});
    CHECK(
        shares_by_speed({1, 1, 1, 1, 10, 10, 1, 1, 1, 1, 1, 1}, 24) ==
        Indices{1, 1, 1, 1, 7, 7, 1, 1, 1, 1, 1, 1});
    for (std::size_t slowest = 0; slowest < 8; ++slowest) {
        std::vector<double> speeds(8, 4);
        speeds[slowest] = 1;
        const auto shares = shares_by_speed(speeds, 32);
        CHECK(shares[slowest] == 1);
        CHECK(*std::max_element(shares.begin(), shares.end()) == 5);
    }
    CHECK(shares_by_speed({1, 1e9}, 64) == Indices{1, 63});
    CHECK(shares_by_speed({5, 5, 5}, 3) == Indices{1, 1, 1});
    std::mt19937 random{1};
    for (int round = 0; round < 200; ++round) {
        std::vector<double> speeds(1 + random() % 8);
        for (auto& speed : speeds)
            speed = 1 + static_cast<double>(random() % 1000);
        const auto total = speeds.size() + random() % 500;
        const auto shares = shares_by_speed(speeds, total);
        CHECK(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}) == total);
        CHECK(*std::min_element(shares.begin(), shares.end()) >= 1);
        CHECK_FALSE(has_shorter_step(speeds, shares));
    }
    for (const double speed : {0.0, -1.0, std::nan(""), HUGE_VAL})
        CHECK_THROWS_AS(static_cast<void>(shares_by_speed({1, speed}, 64)), ddprun::UsageError);
    CHECK_THROWS_AS(static_cast<void>(shares_by_speed({1, 1}, 1)), ddprun::UsageError);
}
