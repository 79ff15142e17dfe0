// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "ddprun/world.hpp"
#include "worker_sdk/src/groups/founding.hpp"
#include "worker_sdk/src/groups/host/hosts.hpp"
#include "worker_sdk/src/groups/mismatch_watch.hpp"
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
std::variant<const DdprunDevicePlugin*, Trouble> load_nccl_plugin();

/// What founding a group on GPUs needs to know.
struct NcclSettings {
    World world;
    Store store;
    std::string prefix;
    std::chrono::milliseconds timeout{};
    /// What other ranks and agents tell; asked while something takes long. Null in a world of one.
    std::shared_ptr<MismatchWatch> watch;
    /// Whose processes can be watched; nothing in a world of one.
    std::optional<Hosts> hosts;
    std::optional<SplitOff> split{};
};

/// Meets all peers. Blocks.
std::variant<std::unique_ptr<Transport>, Trouble> open_nccl_transport(
    const DdprunDevicePlugin& plugin, NcclSettings settings);

}  // namespace ddprun::groups
