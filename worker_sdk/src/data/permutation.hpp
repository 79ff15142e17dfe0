// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace ddprun::data {

/// From this count on PyTorch draws 64 bits for each element, and shuffles from the inside out.
inline constexpr std::uint64_t first_large_permutation = 0xFFFF'FFFFU / 20;

/// PyTorch's CPU generator keeps a 64-bit seed and passes the low half to the engine.
inline std::mt19937 engine_of(std::uint64_t seed) {
    return std::mt19937{static_cast<std::uint32_t>(seed)};
}

inline std::vector<std::uint64_t> small_permutation(std::uint64_t count, std::uint64_t seed) {
    std::vector<std::uint64_t> order(count);
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    auto engine = engine_of(seed);
    for (std::uint64_t i = 0; i + 1 < count; ++i)
        std::swap(order[i], order[i + engine() % (count - i)]);
    return order;
}

inline std::vector<std::uint64_t> large_permutation(std::uint64_t count, std::uint64_t seed) {
    std::vector<std::uint64_t> order(count);
    auto engine = engine_of(seed);
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t high = engine();
        const std::uint64_t low = engine();
        const auto other = (high << 32 | low) % (i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    return order;
}

/// 0 .. count-1 in the order of `torch.randperm(count, generator=g)` on the CPU after
/// `g.manual_seed(seed)`.
inline std::vector<std::uint64_t> torch_permutation(std::uint64_t count, std::uint64_t seed) {
    return count < first_large_permutation ? small_permutation(count, seed)
                                           : large_permutation(count, seed);
}

}  // namespace ddprun::data
