// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolving.hpp"

/// How many workers a node has, which GPUs they see, and what each of them runs.
namespace ddprun::launcher {

/// Fills nproc and has_virtual_local_rank; --devices becomes CUDA_VISIBLE_DEVICES.
Result<> resolve_worker_count(Resolving& job);

/// Fills command: program, arguments, interpreter.
Result<> resolve_command(Resolving& job);

/// Fills role, and the variables that workers get from us. Requires: nproc is resolved.
Result<> resolve_worker_environment(Resolving& job);

/// Fills binding. After the environment: which GPU a worker uses is decided there.
Result<> resolve_cpu_binding(Resolving& job);

}  // namespace ddprun::launcher
