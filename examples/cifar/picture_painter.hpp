// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "image_file.hpp"

#include <cstddef>
#include <cstdint>

namespace cifar {

/// Paints `count` pictures of ten kinds: disc, ring, square, triangle, cross, star, two discs,
/// stripes, chequers and rays, in any colours, places, sizes and turns, in front of a noisy
/// background. Only the shape depends on the kind; the mean of a picture does not. Picture i
/// depends on seed, split and i alone.
Dataset paint_pictures(std::size_t count, Split split, std::uint64_t seed);

}  // namespace cifar
