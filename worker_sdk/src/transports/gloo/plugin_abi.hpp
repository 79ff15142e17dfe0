// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// The ABI between the SDK and a transport plugin: plain C, so that neither side depends on the
/// other's C++ library, exceptions or symbols. No exception crosses it in either direction. Texts
/// are cut to fit a Report.
extern "C" {

struct DdprunReport {
    int kind;  ///< a groups::GroupError::Kind; 0 for success
    char text[512];
    /// The lost ranks, as far as they are known and fit.
    std::int32_t rank_count;
    std::int32_t ranks[32];
};

/// The store, as the plugin sees it. Functions return 0, or a GroupError::Kind after which the
/// plugin stops connecting; the SDK's side keeps the error.
struct DdprunStore {
    void* self;
    int (*set)(void* self, const char* key, const char* data, std::size_t bytes);
    /// Waits for the key, then calls `take(sink, data, bytes)` once.
    int (*get)(
        void* self,
        const char* key,
        void* sink,
        void (*take)(void* sink, const char* data, std::size_t bytes));
};

struct DdprunOpen {
    int rank;
    int world_size;
    /// Numeric address of this machine to listen on and connect from.
    const char* address;
    /// For connecting to one peer that has published its address.
    std::int64_t connect_timeout_ms;
};

struct DdprunCollective {
    std::uint32_t kind;          ///< groups::Collective::Kind
    std::uint32_t element_type;  ///< ElementType
    std::uint32_t op;            ///< Op; averages as sums, the SDK divides
    std::size_t element_bytes;
    std::int32_t root;
    std::int32_t receiver;
    std::uint32_t tag;
    const void* input;
    void* data;
    std::size_t count;
    /// Of all_gather_v and all_to_all_v: the elements of each part. Null: an all_gather of counts.
    const std::size_t* sent_counts;
    const std::size_t* received_counts;
    std::int64_t timeout_ms;
};

struct DdprunPlugin {
    std::uint32_t version;  ///< groups::plugin_version of the headers it was built with
    /// A transport that is not connected yet, or null and a report.
    void* (*open)(const DdprunOpen* settings, DdprunReport* report);
    /// Contracts of groups::Transport, also about concurrent calls. `connect` and `run` return
    /// report->kind. `store` is used during the call only.
    int (*connect)(void* transport, const DdprunStore* store, DdprunReport* report);
    int (*run)(void* transport, const DdprunCollective* collective, DdprunReport* report);
    void (*abort)(void* transport);
    int (*is_broken)(void* transport);
    void (*close)(void* transport);
};

/// The one symbol of a plugin.
using DdprunPluginEntry = const DdprunPlugin* (*)();

}  // extern "C"

namespace ddprun::groups {

inline constexpr std::uint32_t plugin_version = 8;
inline constexpr const char* plugin_entry_name = "ddprun_transport_plugin";

}  // namespace ddprun::groups
