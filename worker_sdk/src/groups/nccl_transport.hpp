// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "ddprun/world.hpp"
#include "worker_sdk/src/groups/failure_monitor.hpp"
#include "worker_sdk/src/groups/founding.hpp"
#include "worker_sdk/src/groups/transport.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>

struct DdprunDevicePlugin;

namespace ddprun::groups {

/// The nccl backend's plugin, opened once per process, or why there is none: the plugin, NCCL, the
/// driver or a GPU is missing.
std::variant<const DdprunDevicePlugin*, GroupError> load_nccl_plugin();

/// The settings for creating a group on GPUs.
struct NcclSettings {
    World world;
    Store store;
    std::string prefix;
    std::chrono::milliseconds timeout{};
    std::shared_ptr<FailureMonitor> monitor;
    std::optional<SplitOff> split{};
};

/// Connects to all peers. Blocks.
std::variant<std::unique_ptr<Transport>, GroupError> open_nccl_transport(
    const DdprunDevicePlugin& plugin, NcclSettings settings);

}  // namespace ddprun::groups
