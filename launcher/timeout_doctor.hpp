// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolving.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// Time limits that contradict each other, a sentence each: what was given, what will happen, what
/// to do. Nothing is refused, since every one of these starts under torchrun too; a limit that
/// nobody chose contradicts nothing. Requires: all time limits of `spec` are resolved.
std::vector<std::string> contradictions(const JobSpec& spec);

/// Notes each of them as a warning, "timeout.contradicts".
Result<> examine_time_limits(Resolving& job);

}  // namespace ddprun::launcher
