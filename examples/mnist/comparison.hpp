// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"

#include <optional>
#include <string>

namespace mnist {

/// How the parameters of two checkpoints differ.
struct Difference {
    /// The first different parameter, in the order of the first checkpoint.
    std::string parameter;
    /// The difference in words when a parameter is missing in one of them, or has another shape.
    std::string why;
    /// The largest difference over all parameters, and its place.
    double largest = 0;
    std::string largest_in;
};

/// None when all parameters are equal bit for bit. The position of the run and its momentum are not
/// compared. Throws ddprun::Error when one of them has no parameters.
std::optional<Difference> compare_parameters(
    const ddprun::Checkpoint& a, const ddprun::Checkpoint& b);

/// One or two lines.
std::string describe(const Difference& difference);

}  // namespace mnist
