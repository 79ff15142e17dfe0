// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "worker_sdk/src/groups/death_watch.hpp"
#include "worker_sdk/src/groups/plugin_abi.hpp"
#include "worker_sdk/src/groups/transport.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <variant>

namespace ddprun::groups {

/// The one symbol of a plugin, which is opened once per process and never closed (its threads may
/// still be about). Looked for in $DDPRUN_PLUGIN_DIR, beside the program (its folder, and ../lib
/// from there), and where the dynamic linker looks (the program's rpath, which the CMake package
/// sets).
///
/// `name` is the file's, "libddprun_gloo.so". Trouble tells every place that was tried.
std::variant<void*, Trouble> load_plugin_entry(const std::string& name, const char* entry_name);
Trouble of_another_version(const std::string& name);

/// A transport plugin for the machine's memory.
std::variant<const DdprunPlugin*, Trouble> load_plugin(const std::string& name);

/// What opening a transport needs to know.
struct PluginSettings {
    int rank = 0;
    int world_size = 1;
    std::string address;
    /// Keys of the rendezvous go behind `prefix` in `store`; each is waited for until `deadline`,
    /// or until somebody has died.
    Store store;
    std::string prefix;
    DeathWatch deaths;
    std::chrono::steady_clock::time_point deadline;
};

/// Connects to all peers. Blocks.
std::variant<std::unique_ptr<Transport>, Trouble> open_plugin_transport(
    const DdprunPlugin& plugin, PluginSettings settings);

}  // namespace ddprun::groups
