// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/data/permutation.hpp"

#include <numeric>
#include <random>
#include <utility>

namespace ddprun::data {
namespace {

/// PyTorch's CPU generator keeps a 64-bit seed and hands the low half to the engine.
std::mt19937 engine_of(std::uint64_t seed) {
    return std::mt19937{static_cast<std::uint32_t>(seed)};
}

std::uint64_t draw_64_bits(std::mt19937& engine) {
    const std::uint64_t high = engine();
    const std::uint64_t low = engine();
    return high << 32 | low;
}

}  // namespace

std::vector<std::uint64_t> torch_permutation(std::uint64_t count, std::uint64_t seed) {
    return count < first_large_permutation ? small_permutation(count, seed)
                                           : large_permutation(count, seed);
}

std::vector<std::uint64_t> small_permutation(std::uint64_t count, std::uint64_t seed) {
    std::vector<std::uint64_t> order(count);
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    auto engine = engine_of(seed);
    for (std::uint64_t i = 0; i + 1 < count; ++i)
        std::swap(order[i], order[i + engine() % (count - i)]);
    return order;
}

std::vector<std::uint64_t> large_permutation(std::uint64_t count, std::uint64_t seed) {
    std::vector<std::uint64_t> order(count);
    auto engine = engine_of(seed);
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto other = draw_64_bits(engine) % (i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    return order;
}

}  // namespace ddprun::data
