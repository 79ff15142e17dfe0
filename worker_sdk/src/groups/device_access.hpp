// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/nccl/nccl_plugin_abi.hpp"

#include <chrono>
#include <functional>

namespace ddprun::groups {

/// The plugin behind a transport between GPUs, for a caller that bypasses its queue (DeviceSteps).
/// Valid as long as the transport. Any thread.
struct DeviceAccess {
    const DdprunDevicePlugin& plugin;
    /// The plugin's transport.
    void* const handle;
    /// The error of a plugin's report, explained by the failure detector.
    std::function<GroupError(const DdprunReport&)> reason;
};

/// A collective in the plugin's ABI.
DdprunCollective device_call(const Collective& collective, std::chrono::milliseconds timeout);

}  // namespace ddprun::groups
