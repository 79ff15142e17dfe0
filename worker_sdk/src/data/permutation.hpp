// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace ddprun::data {

/// From this count on PyTorch draws 64 bits for each element, and shuffles from the inside out.
inline constexpr std::uint64_t first_large_permutation = 0xFFFF'FFFFU / 20;

/// 0 .. count-1 in the order of `torch.randperm(count, generator=g)` on the CPU after
/// `g.manual_seed(seed)`.
std::vector<std::uint64_t> torch_permutation(std::uint64_t count, std::uint64_t seed);

/// The two algorithms, separately; `first_large_permutation` alone decides between them.
std::vector<std::uint64_t> small_permutation(std::uint64_t count, std::uint64_t seed);
std::vector<std::uint64_t> large_permutation(std::uint64_t count, std::uint64_t seed);

}  // namespace ddprun::data
