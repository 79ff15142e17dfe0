// SPDX-License-Identifier: Apache-2.0
// Nanoseconds of one report_progress, the first call left out: one number a line for each of
// REPETITIONS.
#include "ddprun/progress.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>

int main() {
    constexpr int repetitions = 5;
    constexpr std::uint64_t calls = 2'000'000;
    ddprun::report_progress(0);
    for (int repetition = 0; repetition < repetitions; ++repetition) {
        const auto begin = std::chrono::steady_clock::now();
        for (std::uint64_t step = 0; step < calls; ++step)
            ddprun::report_progress(step);
        const std::chrono::duration<double, std::nano> took =
            std::chrono::steady_clock::now() - begin;
        std::printf("%.2f\n", took.count() / static_cast<double>(calls));
    }
}
