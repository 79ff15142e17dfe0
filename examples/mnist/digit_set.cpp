// SPDX-License-Identifier: Apache-2.0
#include "digit_set.hpp"

#include "digit_painter.hpp"
#include "random.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace mnist {
namespace {

constexpr std::size_t pictures_at_a_time = 256;
constexpr std::chrono::milliseconds report_interval{100};

void paint_one(Dataset& data, std::size_t index, Split split, std::uint64_t seed) {
    Random random{seed_of({seed, split == Split::train ? 1U : 2U, index})};
    const auto digit = random.below(10);
    const auto image = paint_digit(static_cast<int>(digit), random);
    data.labels[index] = static_cast<std::uint8_t>(digit);
    std::copy(
        image.begin(),
        image.end(),
        data.pixels.begin() + static_cast<std::ptrdiff_t>(index * image_pixels));
}

}  // namespace

Dataset paint_digits(std::size_t count, Split split, std::uint64_t seed, const Painted& painted) {
    Dataset data{std::vector<std::uint8_t>(count * image_pixels), std::vector<std::uint8_t>(count)};
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    std::condition_variable progressed;
    std::size_t done = 0;

    const auto work = [&] {
        for (;;) {
            const auto first = next.fetch_add(pictures_at_a_time);
            if (first >= count) return;
            const auto last = std::min(count, first + pictures_at_a_time);
            for (auto index = first; index < last; ++index)
                paint_one(data, index, split, seed);
            const std::lock_guard lock{mutex};
            done += last - first;
            if (done == count) progressed.notify_one();
        }
    };
    std::vector<std::jthread> painters;
    const auto cores = std::max(1U, std::thread::hardware_concurrency());
    for (unsigned i = 0; i < cores; ++i)
        painters.emplace_back(work);

    std::unique_lock lock{mutex};
    while (!progressed.wait_for(lock, report_interval, [&] { return done == count; }))
        if (painted) painted(done);
    return data;
}

}  // namespace mnist
