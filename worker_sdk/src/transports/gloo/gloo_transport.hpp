// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "worker_sdk/src/groups/death_reports.hpp"
#include "worker_sdk/src/groups/transport.hpp"
#include "worker_sdk/src/transports/gloo/plugin_abi.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::groups {

/// libddprun_gloo.so, which is opened once per process and never closed (its threads may still
/// run). A plugin, since a program may bring another Gloo (libtorch does). Searched in
/// $DDPRUN_PLUGIN_DIR, beside the program (its folder, and ../lib from there), and where the
/// dynamic linker looks (the program's rpath, which the CMake package sets). GroupError lists every
/// place that was tried.
std::variant<const DdprunPlugin*, GroupError> load_gloo_plugin();

/// The settings for opening a transport over Gloo.
struct GlooSettings {
    /// The ranks that it connects, as the group numbers them; errors name them so. Calls number
    /// them by their places here.
    std::vector<int> ranks;
    int own_rank = 0;
    std::string address;
    /// Keys of the rendezvous have `prefix` in `store`; each is waited for until `deadline`, or
    /// until a rank has died.
    Store store;
    std::string prefix;
    DeathReports deaths;
    std::chrono::steady_clock::time_point deadline;
};

/// Not connected yet.
std::variant<std::unique_ptr<Transport>, GroupError> open_gloo_transport(
    const DdprunPlugin& plugin, GlooSettings settings);

}  // namespace ddprun::groups
