// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/gpu.hpp"
#include "tests/gpu/parts.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

namespace gpu_check {

using namespace std::chrono_literals;
using ddprun::ProcessGroup;
using ddprun::Store;
using ddprun::World;
using Clock = std::chrono::steady_clock;

namespace {

std::string text(double number) {
    return std::to_string(number);
}

/// Rank r's value at place i, and the sum over all ranks: integers that float represents exactly.
float part(int rank, std::size_t i) {
    return static_cast<float>(i % 1000 + static_cast<std::size_t>(rank));
}
float sum(int ranks, std::size_t i) {
    return static_cast<float>(ranks) * part(0, i) + static_cast<float>(ranks * (ranks - 1) / 2);
}

void check_sum(const ProcessGroup& group, const Gpu& gpu, float* data, std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = part(group.rank(), i);
    gpu.upload(data, values.data(), count * sizeof(float));
    group.all_reduce(data, count).wait();
    gpu.download(values.data(), data, count * sizeof(float));
    for (std::size_t i = 0; i < count; ++i)
        expect(
            values[i] == sum(group.size(), i),
            "all_reduce of " + std::to_string(count) + " floats: element " + std::to_string(i) +
                " is " + text(values[i]) + ", not " + text(sum(group.size(), i)));
}

/// The resources of a process.
struct Held {
    std::size_t descriptors = 0;
    std::size_t threads = 0;
    std::size_t gpu_bytes = 0;
};

std::size_t entries(const char* folder) {
    return static_cast<std::size_t>(std::distance(
        std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

Held held(const Gpu& gpu) {
    return {entries("/proc/self/fd"), entries("/proc/self/task"), gpu.used_bytes()};
}

/// Other ranks on the same GPU, and their present work, also use its memory.
constexpr std::size_t slack_bytes = std::size_t{16} << 20;

/// Ending threads takes a moment, and so does returning memory on another rank.
Held settled(const Gpu& gpu, const Held& before) {
    const auto until = Clock::now() + 5s;
    auto now = held(gpu);
    while (Clock::now() < until &&
           (now.threads > before.threads || now.descriptors > before.descriptors ||
            now.gpu_bytes > before.gpu_bytes + slack_bytes)) {
        std::this_thread::sleep_for(10ms);
        now = held(gpu);
    }
    return now;
}

/// Returns when all ranks have arrived, after which their resources can be compared.
void synchronize(const World& world, Store& store, const std::string& where) {
    std::vector<std::string> all;
    for (int rank = 0; rank < world.world_size; ++rank)
        all.push_back(where + "/" + std::to_string(rank));
    store.set(all[static_cast<std::size_t>(world.rank)], "here");
    store.wait(all, 30s);
}

void cycle(const World& world, const Store& store, bool is_aborted) {
    const auto group = nccl_group(world, store);
    constexpr std::size_t count = 1024;
    const auto memory = group.allocate(count * sizeof(float));
    auto* const data = static_cast<float*>(memory.data());
    group.all_reduce(data, count).wait();
    if (!is_aborted) return;
    auto work = group.all_reduce(data, count);
    group.abort();
    try {
        work.wait();  // may have been done before this
    } catch (const ddprun::Error&) {
    }
}

}  // namespace

ProcessGroup nccl_group(const World& world, const Store& store, std::chrono::milliseconds timeout) {
    ProcessGroup::Options options;
    options.backend = ddprun::Backend::nccl;
    options.timeout = timeout;
    return ProcessGroup::create(world, store, options);
}

double milliseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void life(const World& world) {
    const auto store = Store::connect(world);
    const Gpu gpu(device_of(world));
    const auto begin = Clock::now();
    {
        const auto group = nccl_group(world, store);
        const auto created = milliseconds_since(begin);
        const auto memory = group.allocate(4096);
        check_sum(group, gpu, static_cast<float*>(memory.data()), 1000);
        if (world.rank == 0) say("created_ms " + text(created));
    }
    if (world.rank == 0) say("whole_life_ms " + text(milliseconds_since(begin)));
}

void sums(const World& world, std::size_t most_bytes) {
    const auto store = Store::connect(world);
    const auto group = nccl_group(world, store);
    const Gpu gpu(device_of(world));
    const auto memory = group.allocate(most_bytes);
    int sizes = 0;
    for (std::size_t bytes = sizeof(float); bytes <= most_bytes; bytes *= 4, ++sizes)
        check_sum(group, gpu, static_cast<float*>(memory.data()), bytes / sizeof(float));
    const auto reversed = group.split(0, -world.rank);
    expect(reversed->rank() == world.world_size - 1 - world.rank, "a split is by key");
    check_sum(*reversed, gpu, static_cast<float*>(memory.data()), 1000);
    if (world.rank == 0) say("sizes " + std::to_string(sizes));
}

void cycles(const World& world, int count) {
    auto store = Store::connect(world);
    const Gpu gpu(device_of(world));
    int made = 0;
    double longest = 0;
    // No rank measures while another one still has a group, or already has the next one.
    const auto held_after = [&](int until, const Held& before) {
        const auto first = made;
        const auto begin = Clock::now();
        for (; made < until; ++made) {
            const auto start = Clock::now();
            cycle(world, store, made % 2 == 1);
            if (first > 0) longest = std::max(longest, milliseconds_since(start));
        }
        const auto each = milliseconds_since(begin) / std::max(1, made - first);
        const auto name = std::to_string(made);
        synchronize(world, store, name + " done");
        const auto now = settled(gpu, before);
        synchronize(world, store, name + " looked at");
        return std::pair(now, each);
    };
    const int first_ones = std::min(10, count / 2);  // until then, resources are loaded that are
                                                     // kept
    const auto half = (count - first_ones) / 2;
    const auto before = held_after(first_ones, {SIZE_MAX, SIZE_MAX, SIZE_MAX / 2}).first;
    const auto middle = held_after(first_ones + half, before).first;
    const auto last = held_after(first_ones + 2 * half, middle);
    const auto& after = last.first;
    if (world.rank != 0) return;
    say("each_ms " + text(last.second));
    say("longest_ms " + text(longest));
    say("in_each_half " + std::to_string(half));
    const auto numbers = [&](const char* name, auto number) {
        say(std::string{name} + " " + std::to_string(number(before)) + " " +
            std::to_string(number(middle)) + " " + std::to_string(number(after)));
    };
    numbers("descriptors", [](const Held& one) { return one.descriptors; });
    numbers("threads", [](const Held& one) { return one.threads; });
    numbers("gpu_mib", [](const Held& one) { return one.gpu_bytes >> 20; });
}

}  // namespace gpu_check
