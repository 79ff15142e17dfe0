// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "idx_file.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace mnist {

/// Told now and then, on the thread that called, how many pictures are done.
using Painted = std::function<void(std::size_t done)>;

/// `count` painted digits. Picture i depends on seed, split and i alone: on neither the number of
/// cores, all of which are used, nor on `count`.
Dataset paint_digits(std::size_t count, Split split, std::uint64_t seed, const Painted& painted);

}  // namespace mnist
