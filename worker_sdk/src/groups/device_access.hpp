// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/trouble.hpp"
#include "worker_sdk/src/nccl/nccl_plugin_abi.hpp"

#include <chrono>
#include <functional>

namespace ddprun::groups {

/// What is behind a transport between GPUs, for who does not go through its queue (DeviceSteps).
/// Lives as long as the transport. Any thread.
struct DeviceAccess {
    const DdprunDevicePlugin& plugin;
    /// The plugin's transport.
    void* const handle;
    /// What a report of the plugin's means, with what else is known.
    std::function<Trouble(const DdprunReport&)> reason;
};

/// A collective as the plugin takes it.
DdprunCollective device_call(const Collective& collective, std::chrono::milliseconds timeout);

}  // namespace ddprun::groups
