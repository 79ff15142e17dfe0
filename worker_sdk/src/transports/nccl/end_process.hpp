// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::nccl {

/// Ends a process that cannot continue because a thread is stuck inside NCCL or the driver. This
/// text is all that reaches the launcher.
[[noreturn]] void end_process(const std::string& text);

}  // namespace ddprun::nccl
