// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun {

/// One parameter of a model: its name for messages, its count in elements.
struct ParameterSpec {
    std::string name;
    std::size_t count = 0;
};

/// Values of a model that are no parameters and have no gradient (running averages, counters), in
/// the caller's memory.
struct BufferSpec {
    std::string name;
    void* data = nullptr;
    std::size_t count = 0;
    ElementType type = ElementType::float32;
};

/// Which parts of a model are in the caller's memory; by default none, and the reducer allocates.
/// The caller's memory must outlive the reducer.
struct Placement {
    /// The address of each parameter, in any order; empty: the reducer's memory.
    std::vector<float*> parameters;
    /// All gradients in one array, in the order of the specs, without gaps; null: the reducer's
    /// memory. Memory from `ProcessGroup::allocate` is reduced fastest.
    float* gradients = nullptr;
    std::vector<BufferSpec> buffers;
};

/// Places parameters and gradients in one flat array each, in the order of the specs and without
/// gaps.
Placement flat_placement(
    const std::vector<ParameterSpec>& specs, float* parameters, float* gradients);

}  // namespace ddprun
