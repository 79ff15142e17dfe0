// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/env_defaults.hpp"
#include "launcher/resolve/job_spec.hpp"
#include "rendezvous/base/result.hpp"

namespace ddprun::launcher {

/// Reads certificates, password or token for an election's engine, and sets how they are read
/// again; for a Lease also the namespace, if it was not given. Without an election it does nothing.
/// On error the code is EINVAL and the context is the message to show.
Result<> load_election_access(JobSpec& spec, const Environment& environment);

}  // namespace ddprun::launcher
