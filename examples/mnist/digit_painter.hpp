// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace mnist {

inline constexpr std::size_t image_side = 28;
inline constexpr std::size_t image_pixels = image_side * image_side;

/// White on black, line by line from the top left, as in MNIST.
using Image = std::array<std::uint8_t, image_pixels>;

/// A handwritten `digit`, 0 to 9: one of its shapes with an unsteady hand, turned, slanted,
/// stretched and moved, with a pen of any width, between stray strokes and noise. The constants at
/// the top of the .cpp file determine how hard the digits are.
Image paint_digit(int digit, Random& random);

}  // namespace mnist
