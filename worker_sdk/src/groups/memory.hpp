// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/arena.hpp"

#include <cstddef>
#include <memory>

namespace ddprun::groups {

/// Zeroed pages: the arena's, or ordinary ones where it is exhausted or there is none. Identified
/// by the address alone, as the C API requires; keeps its arena alive. Throws std::bad_alloc.
void* allocate(std::shared_ptr<Arena> arena, std::size_t bytes);
/// Ignores memory that was not allocated here.
void deallocate(void* memory);

}  // namespace ddprun::groups
