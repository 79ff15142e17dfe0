// SPDX-License-Identifier: Apache-2.0
#include "ddprun/prefetching_loader.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <vector>

using namespace ddprun;

namespace {

using Indices = std::vector<std::uint64_t>;
using Loader = PrefetchingLoader<Indices>;

Indices counted(std::uint64_t count) {
    Indices all(count);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    return all;
}

Indices all_of(Loader& loader) {
    Indices all;
    while (const auto batch = loader.next())
        all.insert(all.end(), batch->begin(), batch->end());
    return all;
}

}  // namespace

TEST_CASE("sdk: a loader keeps the sampler's order with any number of threads") {
    const DistributedSampler sampler(1001, 3, 1);
    for (const std::size_t threads : {1U, 2U, 5U})
        for (const std::size_t ahead : {1U, 2U, 8U}) {
            Loader loader(
                sampler, [](const Indices& samples) { return samples; }, {16, ahead, threads});
            CHECK(loader.batch_count() == 21);
            CHECK(all_of(loader) == sampler.indices());
            CHECK_FALSE(loader.next().has_value());
        }
}

TEST_CASE("sdk: a loader without samples ends at once") {
    Loader loader(Indices{}, [](const Indices& samples) { return samples; }, {16});
    CHECK_FALSE(loader.next().has_value());
}

TEST_CASE("sdk: a loader loads so many batches ahead, and no more") {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t begun = 0;
    const auto load = [&](const Indices& samples) {
        {
            const std::lock_guard lock(mutex);
            ++begun;
        }
        changed.notify_all();
        return samples;
    };
    const auto wait_for = [&](std::size_t count) {
        std::unique_lock lock(mutex);
        return changed.wait_for(lock, std::chrono::seconds(30), [&] { return begun >= count; });
    };

    Loader loader(counted(100), load, {1, 3, 2});

    CHECK(wait_for(3));  // without a call of next
    for (std::size_t taken = 1; taken <= 50; ++taken) {
        loader.next();
        CHECK(wait_for(taken + 3));
        const std::lock_guard lock(mutex);
        CHECK(begun == taken + 3);
    }
}

TEST_CASE("sdk: next throws what loading that batch threw") {
    Loader loader(
        counted(5),
        [](const Indices& samples) {
            if (samples.front() == 2) throw std::runtime_error("picture 2 is damaged");
            return samples;
        },
        {1, 2, 2});

    CHECK(loader.next() == Indices{0});
    CHECK(loader.next() == Indices{1});
    CHECK_THROWS_WITH(loader.next(), "picture 2 is damaged");
    CHECK(loader.next() == Indices{3});
    CHECK(loader.next() == Indices{4});
    CHECK_FALSE(loader.next().has_value());
}

TEST_CASE("sdk: a loader may be destroyed in mid-epoch") {
    for (int i = 0; i < 100; ++i) {
        Loader loader(counted(100), [](const Indices& samples) { return samples; }, {1, 4, 3});
        loader.next();
    }
}
