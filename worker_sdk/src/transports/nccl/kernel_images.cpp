// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/kernel_images.hpp"

extern "C" const unsigned char ddprun_compression_fatbin[];
extern "C" const unsigned char ddprun_steps_fatbin[];

namespace ddprun::nccl {

std::optional<KernelImages> kernel_images() {
    return KernelImages{ddprun_compression_fatbin, ddprun_steps_fatbin};
}

}  // namespace ddprun::nccl
