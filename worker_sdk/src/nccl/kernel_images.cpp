// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/nccl/kernel_images.hpp"

extern "C" const unsigned char compression_fatbin[];
extern "C" const unsigned char steps_fatbin[];

namespace ddprun::nccl {

std::optional<KernelImages> kernel_images() {
    return KernelImages{compression_fatbin, steps_fatbin};
}

}  // namespace ddprun::nccl
