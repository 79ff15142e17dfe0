// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/job_spec.hpp"

#include <string>

namespace ddprun::launcher {

/// Who would serve the rendezvous if the job started now, and why, in one sentence. Asks the
/// resolver, which may take seconds: for `--explain` only. The agent asks anew at every attempt.
std::string who_serves(const JobSpec& spec, const Surroundings& surroundings);

}  // namespace ddprun::launcher
