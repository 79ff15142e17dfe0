// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace ddprun::nccl {

/// The fatbins that nvcc built from the files in kernels/, for cuModuleLoadData.
struct KernelImages {
    const void* compression;
    const void* steps;
};

/// None in a build without nvcc.
std::optional<KernelImages> kernel_images();

}  // namespace ddprun::nccl
