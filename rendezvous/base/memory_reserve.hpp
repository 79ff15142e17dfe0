// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun {

/// Allocates a reserve of memory if this process has none. When an allocation fails, the reserve is
/// freed, and the allocation then succeeds unless it is large. So a half-done step can be ended,
/// including destructors that allocate (such as those of a JSON document) and its log lines. Call
/// it at the start and after each step. Returns false when there is no memory for the reserve: then
/// the caller must free something. May be called from any thread.
bool keep_memory_reserve();

}  // namespace ddprun
