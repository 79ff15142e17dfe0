// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/job_spec.hpp"

namespace ddprun::launcher {

/// Reads everything the launcher needs to know about this machine and process. Starts no thread
/// and leaves no descriptor open: the keeper forks afterwards.
Surroundings look_around(const char* const* environment);

}  // namespace ddprun::launcher
