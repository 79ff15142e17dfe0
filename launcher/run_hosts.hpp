// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/process/inherited_state.hpp"
#include "launcher/hosts/host_job.hpp"
#include "launcher/resolve/job_spec.hpp"

namespace ddprun::launcher {

/// Runs a job of --hosts from the first connection to the exit code. Returns what main returns.
/// Requires: find_program found `ssh`, unless every place is on this machine.
int run_hosts(
    const HostJob& job,
    const SystemInfo& system,
    const std::string& ssh,
    const agent::InheritedState& start);

}  // namespace ddprun::launcher
