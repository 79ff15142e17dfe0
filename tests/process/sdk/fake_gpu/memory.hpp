// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/sdk/fake_gpu/engine.hpp"

namespace fake_gpu {

/// Whether a pointer may be passed to kernels: device memory, or pinned host memory. Requires: the
/// lock is held.
bool is_device_memory(const void* data, std::size_t bytes);

}  // namespace fake_gpu
