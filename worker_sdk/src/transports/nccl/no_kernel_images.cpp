// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/kernel_images.hpp"

namespace ddprun::nccl {

std::optional<KernelImages> kernel_images() {
    return std::nullopt;
}

}  // namespace ddprun::nccl
