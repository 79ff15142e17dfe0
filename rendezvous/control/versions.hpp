// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

/// The versions of the control protocol that two ends have in common (FORMAT.md). Pure.
namespace ddprun::control {

/// What the preamble names. It has not changed since.
inline constexpr int first_version = 1;

/// From this one on `welcome` has a token, which `resume` must show.
inline constexpr int tokens_since = 2;
/// From this one on a heartbeat may have the workers' progress.
inline constexpr int progress_since = 2;
/// From this one on a server keeps to the unit of a job's nodes, and places nodes by their switch.
inline constexpr int shape_since = 2;
/// From this one on `leave` may end the whole job by any signal.
inline constexpr int job_end_since = 2;
/// From this one on ranks agree on a step to save.
inline constexpr int save_since = 2;
/// From this one on a server drains nodes by a command, and an agent obeys its order for that.
inline constexpr int drain_since = 2;
/// From this one on agents report what their workers do, and are notified of a hang.
inline constexpr int hang_since = 2;
/// From this one on nodes keep the job's goodput for the next server, and get it with the result.
inline constexpr int goodput_since = 2;

/// What this program speaks: in `hello` and `join`.
std::vector<int> own_versions();

/// The newest that this program and the other end speak; 0: there is none. An end that names no
/// versions speaks the first.
int common_version(const std::vector<int>& of_other_end);

}  // namespace ddprun::control
