// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun {

/// Takes a piece of memory, if this process has none in reserve. It is given back when an
/// allocation fails, which then succeeds unless it is a big one: so a step that is half done can be
/// ended, with its destructors that allocate (those of a JSON document do) and its log lines.
/// Called at the start and after each step; false if there is no memory for it: less must be held
/// then. Any thread.
bool keep_memory_reserve();

}  // namespace ddprun
