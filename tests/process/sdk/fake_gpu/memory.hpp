// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/sdk/fake_gpu/engine.hpp"

namespace fake_gpu {

/// Whether kernels may be given that pointer: device memory, or pinned host memory. With the lock.
bool is_device_memory(const void* data, std::size_t bytes);

}  // namespace fake_gpu
