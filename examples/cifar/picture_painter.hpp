// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "image_file.hpp"

#include <cstddef>
#include <cstdint>

namespace cifar {

/// `count` painted pictures of ten kinds: disc, ring, square, triangle, cross, star, two discs,
/// stripes, chequers and rays, in any colours, places, sizes and turns, in front of a noisy
/// background. The mean of a picture does not depend on its kind; only its shape does. Picture i
/// depends on seed, split and i alone.
Dataset paint_pictures(std::size_t count, Split split, std::uint64_t seed);

}  // namespace cifar
