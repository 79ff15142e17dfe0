// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/job_spec.hpp"

#include <string>

namespace ddprun::launcher {

/// What `--explain` prints: every value with its origin, who serves the rendezvous and why (a
/// sentence from server::decide), the worker's command, and what was changed for the person.
std::string explain(const JobSpec& spec, const std::string& who_serves);

}  // namespace ddprun::launcher
