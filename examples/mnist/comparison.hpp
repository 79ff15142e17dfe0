// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"

#include <optional>
#include <string>

namespace mnist {

/// How the parameters of two checkpoints differ.
struct Difference {
    /// The first one, in the order of the first checkpoint, that is not the same bit for bit.
    std::string parameter;
    /// Said instead of numbers when a parameter is in one of them only, or of another shape.
    std::string why;
    /// Over all parameters, and where.
    double largest = 0;
    std::string largest_in;
};

/// Nothing when all parameters are the same bits. Where the run was, and its momentum, do not
/// count. Throws ddprun::Error when one of them has no parameters.
std::optional<Difference> compare_parameters(
    const ddprun::Checkpoint& a, const ddprun::Checkpoint& b);

/// One or two lines.
std::string describe(const Difference& difference);

}  // namespace mnist
