// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace ddprun::nccl {

/// What nvcc has made of the files in kernels/, for cuModuleLoadData.
struct KernelImages {
    const void* compression;
    const void* steps;
};

/// Nothing in a build without nvcc.
std::optional<KernelImages> kernel_images();

}  // namespace ddprun::nccl
