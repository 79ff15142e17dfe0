// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/element_type.hpp"

#include <cstddef>
#include <vector>

namespace ddprun::groups {

/// Combines the data of all ranks, in the order of ranks, and writes it to each target, at memory
/// speed. A target may be a source. 16-bit floats are combined as floats and rounded once.
void reduce_all(
    ElementType type,
    Op op,
    const std::vector<const std::byte*>& sources,
    const std::vector<std::byte*>& targets,
    std::size_t count);

}  // namespace ddprun::groups
