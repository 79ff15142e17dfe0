// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/nccl/nccl_plugin_abi.hpp"

namespace ddprun::nccl {

/// Steps as C functions.
DdprunDeviceSteps steps_border();

}  // namespace ddprun::nccl
