// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "worker_sdk/src/groups/death_reports.hpp"
#include "worker_sdk/src/groups/plugin_abi.hpp"
#include "worker_sdk/src/groups/transport.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <variant>

namespace ddprun::groups {

/// The one symbol of a plugin, which is opened once per process and never closed (its threads may
/// still run). Searched in $DDPRUN_PLUGIN_DIR, beside the program (its folder, and ../lib from
/// there), and where the dynamic linker looks (the program's rpath, which the CMake package sets).
///
/// `name` is the file's, "libddprun_gloo.so". GroupError lists every place that was tried.
std::variant<void*, GroupError> load_plugin_entry(const std::string& name, const char* entry_name);
GroupError of_another_version(const std::string& name);

/// A transport plugin for host memory.
std::variant<const DdprunPlugin*, GroupError> load_plugin(const std::string& name);

/// The settings for opening a transport.
struct PluginSettings {
    int rank = 0;
    int world_size = 1;
    std::string address;
    /// Keys of the rendezvous have `prefix` in `store`; each is waited for until `deadline`, or
    /// until a rank has died.
    Store store;
    std::string prefix;
    DeathReports deaths;
    std::chrono::steady_clock::time_point deadline;
};

/// Connects to all peers. Blocks.
std::variant<std::unique_ptr<Transport>, GroupError> open_plugin_transport(
    const DdprunPlugin& plugin, PluginSettings settings);

}  // namespace ddprun::groups
