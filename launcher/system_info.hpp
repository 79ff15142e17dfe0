// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolve/job_spec.hpp"

namespace ddprun::launcher {

/// Reads all facts about this machine and process that the launcher needs. Starts no thread and
/// leaves no descriptor open: the keeper forks afterwards.
SystemInfo read_system_info(const char* const* environment);

}  // namespace ddprun::launcher
