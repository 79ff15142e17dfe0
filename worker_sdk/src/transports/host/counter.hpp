// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/waiting_times.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace ddprun::groups {

/// A number in shared memory that one rank increments and others wait for. It wraps around, so
/// compared values must be less than half the range apart.
struct alignas(64) Counter {
    std::atomic<std::uint32_t> value;
    std::atomic<std::uint32_t> sleepers;

    bool has_reached(std::uint32_t target) const {
        return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
    }
    /// Publishes everything written before, and wakes sleeping ranks.
    void set(std::uint32_t to);
    void wake();
    /// Sleeps until woken, at most `at_most`; not at all once `target` is reached.
    void sleep(std::uint32_t target, std::chrono::milliseconds at_most);
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "it lies between processes");

/// Decides how long to poll a counter before sleeping: a wake-up takes about 50 us, and most waits
/// are shorter. Adapts with each wait. Without a core for each rank, polling costs more than it
/// saves.
class SpinPolicy {
public:
    explicit SpinPolicy(bool has_cores) : has_cores_(has_cores) {}

    /// Polls for a while, first without yielding, then with it.
    template <class IsOver>
    bool look(IsOver is_over) {
        for (int round = 0; has_cores_ && round < rounds_; ++round) {
            for (int i = 0; i < 64; ++i) {
                if (is_over()) return learn(true);
                pause();
            }
        }
        if (!has_cores_ && look_while_yielding(is_over)) return true;
        return learn(false);
    }

private:
    static constexpr int fewest_rounds = 8;
    static constexpr int most_rounds = 128;  // some 200 us

    /// Yielding helps while it lets the awaited rank run. When a yield takes long, another process
    /// has run; then sleeping is faster.
    template <class IsOver>
    static bool look_while_yielding(IsOver is_over) {
        const auto until = std::chrono::steady_clock::now() + waiting_times::longest_yield;
        do {
            yield();
            if (is_over()) return true;
        } while (std::chrono::steady_clock::now() < until);
        return false;
    }

    bool learn(bool found) {
        rounds_ = found ? rounds_ * 2 : rounds_ / 2;
        if (rounds_ < fewest_rounds) rounds_ = fewest_rounds;
        if (rounds_ > most_rounds) rounds_ = most_rounds;
        return found;
    }
    static void pause();
    static void yield();

    bool has_cores_;
    int rounds_ = most_rounds;
};

}  // namespace ddprun::groups
