// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

/// The versions of the control protocol that two ends have in common (FORMAT.md). Pure.
namespace ddprun::control {

/// The version that the preamble names, unchanged since.
inline constexpr int first_version = 1;

/// From this version on `welcome` has a token, which `resume` must repeat.
inline constexpr int tokens_since = 2;
/// From this version on a heartbeat may have the workers' progress.
inline constexpr int progress_since = 2;
/// From this version on a server respects a job's unit of nodes, and ranks nodes by their switch.
inline constexpr int shape_since = 2;
/// From this version on `leave` may end the whole job with any signal.
inline constexpr int job_end_since = 2;
/// From this version on ranks agree on a step to save.
inline constexpr int save_since = 2;
/// From this version on a server drains nodes by a command, and agents perform its order.
inline constexpr int drain_since = 2;
/// From this version on a server changes the number of a job's nodes by a command, and agents keep
/// that number for the next server.
inline constexpr int resize_since = 2;
/// From this version on agents perform orders of the server about their workers.
inline constexpr int orders_since = 2;
/// From this version on agents keep the list of drained hosts for the next server.
inline constexpr int drained_since = 2;
/// From this version on agents are notified of which nodes vote about the leader.
inline constexpr int voters_since = 2;
/// From this version on agents report what their workers do, and are notified of a hang.
inline constexpr int hang_since = 2;
/// From this version on nodes keep the job's goodput for the next server, and get it with the
/// result.
inline constexpr int goodput_since = 2;
/// From this version on workers may keep their processes, and their state, over the end of a round.
inline constexpr int recovery_since = 2;

/// The versions that this program supports, for `hello` and `join`.
std::vector<int> own_versions();

/// The newest version that both ends support; 0: there is none. An end that names no versions
/// supports only the first.
int common_version(const std::vector<int>& of_other_end);

}  // namespace ddprun::control
