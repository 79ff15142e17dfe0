// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "idx_file.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace mnist {

/// As many as MNIST has.
constexpr std::size_t usual_count(Split split) {
    return split == Split::train ? 60'000 : 10'000;
}
inline constexpr std::uint64_t usual_seed = 1;

/// Called now and then, on the caller's thread, with the number of pictures that are done.
using Painted = std::function<void(std::size_t done)>;

/// `count` painted digits. Picture i depends on seed, split and i alone: on neither the number of
/// cores, all of which are used, nor on `count`.
Dataset paint_digits(std::size_t count, Split split, std::uint64_t seed, const Painted& painted);

}  // namespace mnist
