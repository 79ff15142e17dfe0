// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/by_hand.hpp"
#include "tests/gpu/gpu.hpp"
#include "tests/gpu/parts.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

namespace gpu_check {

using namespace std::chrono_literals;
using ddprun::Store;
using ddprun::World;
using Clock = std::chrono::steady_clock;

namespace {

/// How many calls are launched before the last is waited for.
constexpr int in_flight = 8;
constexpr int least_blocks = 5;
constexpr int most_blocks = 2000;

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

double microseconds_of(const std::function<void()>& block) {
    const auto start = Clock::now();
    block();
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

}  // namespace

void bench(const World& world, std::size_t most_bytes, double seconds) {
    auto store = Store::connect(world);
    const auto group = nccl_group(world, store);
    const Gpu gpu(device_of(world));
    ByHand hand(world, store, gpu, ByHand::Kind::non_blocking, "by_hand");
    ByHand blocking(world, store, gpu, ByHand::Kind::blocking, "blocking");
    const auto memory = group.allocate(most_bytes);
    auto* const data = static_cast<float*>(memory.data());

    for (std::size_t bytes = sizeof(float); bytes <= most_bytes; bytes *= 4) {
        const auto count = bytes / sizeof(float);
        const auto by_hand = [&](ByHand& comm, int calls) {
            for (int i = 0; i < calls; ++i)
                comm.all_reduce(data, count);
            comm.wait();
        };
        const auto by_sdk = [&](int calls) {
            std::vector<ddprun::Work> works;
            for (int i = 0; i < calls; ++i)
                works.push_back(group.all_reduce(data, count));
            for (auto& work : works)
                work.wait();
        };
        const std::vector<std::function<void()>> ways{
            [&] { by_sdk(1); },
            [&] { by_hand(hand, 1); },
            [&] { by_hand(blocking, 1); },
            [&] { by_sdk(in_flight); },
            [&] { by_hand(hand, in_flight); },
            [&] { by_hand(blocking, in_flight); }};

        // Rank 0 determines how often, so that all ranks do the same.
        const auto key = "blocks/" + std::to_string(bytes);
        double once = 0;
        for (int i = 0; i < 2; ++i) {
            once = 0;
            for (const auto& way : ways)
                once += microseconds_of(way);
        }
        if (world.rank == 0)
            store.set(
                key,
                std::to_string(
                    std::clamp(static_cast<int>(seconds * 1e6 / once), least_blocks, most_blocks)));
        const int blocks = std::stoi(store.get(key));

        // They take turns, so that other load of the machine affects all equally.
        std::vector<std::vector<double>> times(ways.size());
        for (int block = 0; block < blocks; ++block)
            for (std::size_t way = 0; way < ways.size(); ++way)
                times[way].push_back(microseconds_of(ways[way]));
        if (world.rank != 0) continue;
        char line[320];
        std::snprintf(
            line,
            sizeof line,
            "bytes %zu sdk %.2f hand %.2f blocking %.2f sdk_flying %.2f hand_flying %.2f "
            "blocking_flying %.2f blocks %d",
            bytes,
            median(times[0]),
            median(times[1]),
            median(times[2]),
            median(times[3]) / in_flight,
            median(times[4]) / in_flight,
            median(times[5]) / in_flight,
            blocks);
        say(line);
    }
    group.barrier().wait();
    hand.end();
    blocking.end();
}

}  // namespace gpu_check
