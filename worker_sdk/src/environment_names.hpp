// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Every environment variable the SDK reads, spelled once. The agent writes the same names from its
/// own list (agent/plan); the two meet in the process tests and nowhere else.
namespace ddprun::environment {

// torchrun's names, with torchrun's meaning. A launched worker has the first four.
inline constexpr const char* rank = "RANK";
inline constexpr const char* world_size = "WORLD_SIZE";
inline constexpr const char* master_addr = "MASTER_ADDR";
inline constexpr const char* master_port = "MASTER_PORT";
inline constexpr const char* local_rank = "LOCAL_RANK";
inline constexpr const char* local_world_size = "LOCAL_WORLD_SIZE";
inline constexpr const char* group_rank = "GROUP_RANK";
inline constexpr const char* restart_count = "TORCHELASTIC_RESTART_COUNT";

// Ours.
inline constexpr const char* round = "DDPRUN_ROUND";
inline constexpr const char* incarnation = "DDPRUN_INCARNATION";
inline constexpr const char* node_addr = "DDPRUN_NODE_ADDR";

/// What this rank calls its host, to make several of one machine or none of several.
inline constexpr const char* host_id = "DDPRUN_HOST_ID";

/// A folder to look for the SDK's plugins in before all others.
inline constexpr const char* plugin_dir = "DDPRUN_PLUGIN_DIR";

}  // namespace ddprun::environment
