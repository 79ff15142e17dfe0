// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/arena.hpp"

#include <cstddef>
#include <memory>

namespace ddprun::groups {

/// Zeroed pages: the arena's, or ordinary ones where it has no more or there is none. It is known
/// by its address alone, as C wants it, and keeps its arena. Throws std::bad_alloc.
void* allocate(std::shared_ptr<Arena> arena, std::size_t bytes);
/// What is no memory of ours is left alone.
void deallocate(void* memory);

}  // namespace ddprun::groups
