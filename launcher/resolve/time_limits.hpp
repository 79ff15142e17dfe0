// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolve/resolving.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// Time limits that contradict each other, one sentence each: what was given, what will happen,
/// what to do. None is an error, since each of these jobs starts under torchrun too; a default
/// contradicts nothing. Requires: all time limits of `spec` are resolved.
std::vector<std::string> contradictions(const JobSpec& spec);

/// Notes each of them as a warning, "timeout.contradicts".
Result<> check_time_limits(Resolving& job);

}  // namespace ddprun::launcher
