// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/explain/network_page.hpp"
#include "launcher/resolve/job_spec.hpp"

namespace ddprun::launcher {

/// Examines this machine, and tries the endpoint of this job; takes a few seconds at most.
/// Everything that it opens is closed again. `file_problem`: what is wrong with the limit of
/// descriptors for this job, or empty.
NetworkFacts network_facts(
    const JobSpec& spec, const SystemInfo& system, const std::string& file_problem);

}  // namespace ddprun::launcher
