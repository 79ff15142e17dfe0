// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolve/job_spec.hpp"

#include <string>

namespace ddprun::launcher {

/// Which node would serve the rendezvous if the job started now, and why, in one sentence. Calls
/// the resolver, which may take seconds: for `--explain` only. The agent decides again at every
/// attempt.
std::string server_placement(const JobSpec& spec, const SystemInfo& system);

}  // namespace ddprun::launcher
