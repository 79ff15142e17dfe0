// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/plugin_abi.hpp"

/// The ABI between the SDK and libddprun_nccl.so; the rules of groups/plugin_abi.hpp hold.
extern "C" {

struct DdprunDeviceOpen {
    int rank;
    int world_size;
    int local_rank;
    int local_world_size;
    /// Whether ranks of one node may have the same GPU.
    int shares_device;
    /// For connecting to the peers.
    std::int64_t timeout_ms;
    /// How long an abort may take before the process is ended.
    std::int64_t abort_timeout_ms;
    /// Usable until `close`, from any thread.
    DdprunStore store;
    void* self;
    /// Called during every wait, from any thread, until `close`: whether the group has failed
    /// meanwhile.
    int (*is_given_up)(void* self);
    /// An abort did not return, and the stuck call cannot be cancelled. Does not return.
    void (*end_process)(void* self, const char* text);
    /// The result of a split of the transport `parent`; this transport takes ownership when it is
    /// opened. Null: its ranks connect through the store.
    void* part;
    void* parent;
};

/// The results of a step (nccl/steps.hpp).
struct DdprunStepWords {
    const std::uint32_t* commit;     ///< on the device
    const float* norm;               ///< on the device: of the last clip
    const std::uint64_t* committed;  ///< in host memory
};

/// The steps of a training loop: work in the program's stream, `stream`, or concurrent with it.
/// Contracts of nccl::Steps. Functions that return an int return report->kind.
struct DdprunDeviceSteps {
    /// Null and a report where the plugin has no kernels.
    void* (*open)(void* transport, DdprunReport* report);
    void (*close)(void* steps);
    void (*words)(void* steps, DdprunStepWords* words);
    int (*zero)(void* steps, void* stream, void* data, std::size_t bytes, DdprunReport* report);
    int (*copy)(
        void* steps,
        void* stream,
        void* to,
        const void* from,
        std::size_t bytes,
        DdprunReport* report);
    int (*reduce)(
        void* steps,
        void* stream,
        const DdprunCollective* collective,
        float* values,
        DdprunReport* report);
    int (*finish)(void* steps, void* stream, DdprunReport* report);
    int (*clip)(
        void* steps,
        void* stream,
        float* values,
        std::size_t count,
        float max_norm,
        DdprunReport* report);
    int (*end)(void* steps, void* stream, DdprunReport* report);
    int (*replay)(
        void* steps, void* stream, void (*launch)(void* self), void* self, DdprunReport* report);
    int (*await)(void* steps, void* stream, DdprunReport* report);
    int (*read)(
        void* steps,
        void* stream,
        void* to,
        const void* from,
        std::size_t bytes,
        DdprunReport* report);
    int (*is_capturing)(void* steps, void* stream);
    /// 1 when it is registered with NCCL now.
    int (*enroll)(void* steps, void* data, std::size_t bytes);
    void (*dismiss)(void* steps);
};

struct DdprunDevicePlugin {
    std::uint32_t version;  ///< nccl::plugin_version of the headers it was built with
    /// How many GPUs this process sees; 0 and a report where it has no NCCL, driver or GPU.
    int (*device_count)(DdprunReport* report);
    /// A connected transport, or null and a report. `device` is the GPU it is on.
    void* (*open)(const DdprunDeviceOpen* settings, int* device, DdprunReport* report);
    /// Splits all its ranks by color, each part in the order of keys; nothing is in flight. Null
    /// and a report when it fails; then the transport is aborted. `drop` ends a part, unless a
    /// transport has taken ownership of it.
    void* (*split)(void* transport, int color, int key, DdprunReport* report);
    void (*drop)(void* transport, void* part);
    /// Contracts of groups::Transport, also about concurrent calls. Buffers are on the device.
    /// Averages are computed here. These return report->kind. A collective that has begun is ended
    /// by the next `run` of a collective of all ranks.
    int (*follow)(void* transport, const DdprunCollective* collective, DdprunReport* report);
    int (*begin)(
        void* transport, const DdprunCollective* collective, int* begun, DdprunReport* report);
    int (*run)(void* transport, const DdprunCollective* collective, DdprunReport* report);
    void (*abort)(void* transport);
    int (*is_broken)(void* transport);
    void (*close)(void* transport);
    /// Memory on a device that is faster with NCCL, zeroed; null when it is exhausted.
    void* (*allocate)(int device, std::size_t bytes);
    void (*give_back)(int device, void* data);
    DdprunDeviceSteps steps;
};

/// The one symbol of the plugin.
using DdprunDevicePluginEntry = const DdprunDevicePlugin* (*)();

}  // extern "C"

namespace ddprun::nccl {

inline constexpr std::uint32_t plugin_version = 5;
inline constexpr const char* plugin_name = "libddprun_nccl.so";
inline constexpr const char* plugin_entry_name = "ddprun_nccl_plugin";

}  // namespace ddprun::nccl
