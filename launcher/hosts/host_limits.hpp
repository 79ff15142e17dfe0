// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"

namespace ddprun::limits {
// Hosts that ddprun --hosts starts nodes on.
/// Connections that are being made at once.
inline constexpr int max_connecting_hosts = 32;
/// What a host takes to receive a copy of the program.
inline constexpr Duration program_copy_timeout = 120s;
/// Beyond the grace of its workers, what a node has to end after another one has.
inline constexpr Duration host_end_margin = 15s;
/// What a host may write before its answer, and the longest list of hosts in a file.
inline constexpr std::size_t max_host_answer_bytes = 64 * 1024;
inline constexpr std::size_t max_host_file_bytes = 16 * 1024 * 1024;
}  // namespace ddprun::limits
