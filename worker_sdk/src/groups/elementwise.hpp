// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/element_type.hpp"

#include <cstddef>

namespace ddprun::groups {

std::size_t size_of(ElementType type);
const char* name_of(ElementType type);
const char* name_of(Op op);

/// out[i] = a[i] op b[i]; `out` may be `a` or `b`.
using Combine = void (*)(void* out, const void* a, const void* b, std::size_t count);

/// The function for the type and operation; for averages, the function that sums.
Combine combiner(ElementType type, Op op);

/// Turns the sum over `world_size` ranks into the average.
void divide(void* data, std::size_t count, ElementType type, int world_size);

}  // namespace ddprun::groups
