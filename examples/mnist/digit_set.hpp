// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "idx_file.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace mnist {

/// The number of samples in MNIST.
constexpr std::size_t usual_count(Split split) {
    return split == Split::train ? 60'000 : 10'000;
}
inline constexpr std::uint64_t usual_seed = 1;

/// Called now and then, on the caller's thread, with the number of finished pictures.
using Painted = std::function<void(std::size_t done)>;

/// Paints `count` digits on all cores. Picture i depends on seed, split and i alone, not on the
/// number of cores or on `count`.
Dataset paint_digits(std::size_t count, Split split, std::uint64_t seed, const Painted& painted);

}  // namespace mnist
