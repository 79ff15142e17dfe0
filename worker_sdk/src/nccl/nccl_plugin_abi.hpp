// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/plugin_abi.hpp"

/// The border between the SDK and libddprun_nccl.so; the rules of groups/plugin_abi.hpp hold.
extern "C" {

struct DdprunDeviceOpen {
    int rank;
    int world_size;
    int local_rank;
    int local_world_size;
    /// Whether ranks of one node may have the same GPU.
    int shares_device;
    /// For finding the peers.
    std::int64_t timeout_ms;
    /// How long an abort may take before the process is ended.
    std::int64_t abort_timeout_ms;
    /// Usable until `close`, from any thread.
    DdprunStore store;
    void* self;
    /// Asked while opening: has the group been given up meanwhile?
    int (*is_given_up)(void* self);
    /// An abort did not come back, and what hangs cannot be called back. Does not return.
    void (*end_process)(void* self, const char* text);
};

struct DdprunDevicePlugin {
    std::uint32_t version;  ///< nccl::plugin_version of the headers it was built with
    /// How many GPUs this process sees; 0 and a report where it has no NCCL, driver or GPU.
    int (*device_count)(DdprunReport* report);
    /// A connected transport, or null and a report. `device` is the GPU it is on.
    void* (*open)(const DdprunDeviceOpen* settings, int* device, DdprunReport* report);
    /// Contracts of groups::Transport, also which calls may come at the same time. Buffers are on
    /// the device. Averages are made here. `run` returns report->kind.
    int (*run)(void* transport, const DdprunCollective* collective, DdprunReport* report);
    void (*abort)(void* transport);
    int (*is_broken)(void* transport);
    void (*close)(void* transport);
    /// Memory on a device that NCCL can do better with, zeroed; null when there is none left.
    void* (*allocate)(int device, std::size_t bytes);
    void (*give_back)(int device, void* data);
};

/// The one symbol of the plugin.
using DdprunDevicePluginEntry = const DdprunDevicePlugin* (*)();

}  // extern "C"

namespace ddprun::nccl {

inline constexpr std::uint32_t plugin_version = 1;
inline constexpr const char* plugin_name = "libddprun_nccl.so";
inline constexpr const char* plugin_entry_name = "ddprun_nccl_plugin";

}  // namespace ddprun::nccl
