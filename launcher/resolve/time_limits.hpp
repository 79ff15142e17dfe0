// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolve/resolving.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// Lists time limits that contradict each other, one sentence each: what was given, what will
/// happen, what to do. They are no errors, since such jobs start under torchrun too. A default
/// contradicts nothing. Requires: all time limits of `spec` are resolved.
std::vector<std::string> contradictions(const JobSpec& spec);

/// Reports each contradiction as a warning, "timeout.contradicts".
Result<> check_time_limits(Resolving& job);

}  // namespace ddprun::launcher
