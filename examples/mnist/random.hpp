// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>

namespace mnist {

/// SplitMix64's finalizer: every bit of the result depends on every bit of `value`.
constexpr std::uint64_t mixed(std::uint64_t value) {
    value += 0x9E37'79B9'7F4A'7C15U;
    value = (value ^ value >> 30U) * 0xBF58'476D'1CE4'E5B9U;
    value = (value ^ value >> 27U) * 0x94D0'49BB'1331'11EBU;
    return value ^ value >> 31U;
}

/// A seed determined by these numbers: the same on every machine, for every caller, in any order.
constexpr std::uint64_t seed_of(std::initializer_list<std::uint64_t> names) {
    std::uint64_t seed = 0;
    for (const auto name : names)
        seed = mixed(seed ^ name);
    return seed;
}

/// A small random source (SplitMix64). The standard engines would be suitable, but the standard
/// distributions differ between libraries, and a seed must give the same digits everywhere.
class Random {
public:
    explicit constexpr Random(std::uint64_t seed) : state_(seed) {}

    constexpr std::uint64_t bits() {
        const auto result = mixed(state_);
        state_ += 0x9E37'79B9'7F4A'7C15U;
        return result;
    }

    /// 0 .. count-1. Requires: count much smaller than 2^64.
    constexpr std::uint64_t below(std::uint64_t count) { return bits() % count; }

    /// In [0, 1), in [low, high).
    constexpr double uniform() { return static_cast<double>(bits() >> 11U) * 0x1p-53; }
    constexpr double uniform(double low, double high) { return low + (high - low) * uniform(); }

    /// Gaussian around 0 (Box and Muller's way).
    double normal(double deviation) {
        const double radius = std::sqrt(-2 * std::log(1 - uniform()));
        return deviation * radius * std::cos(2 * std::numbers::pi * uniform());
    }

    constexpr bool chance(double probability) { return uniform() < probability; }

private:
    std::uint64_t state_;
};

}  // namespace mnist
