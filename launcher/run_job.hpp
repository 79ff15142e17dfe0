// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/job_spec.hpp"

#include <string>

namespace ddprun::launcher {

/// Everything between the command line and the exit code: options, the spec, what `--help`,
/// `--version` and `--explain` print, then the fork into keeper and agent.
/// Requires: no thread was ever started in this process.
int run(int argc, const char* const* argv, const char* const* environment);

}  // namespace ddprun::launcher
