// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu_network.hpp"

namespace cifar {

/// Opens the driver, cuDNN and this program's CUDA part. Throws gpu::Unavailable, which names what
/// is missing.
MakeGpuNetwork open_cuda_part();

}  // namespace cifar
