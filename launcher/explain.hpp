// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/job_spec.hpp"

#include <string>

namespace ddprun::launcher {

/// What `--explain` prints: every value with its origin, and every option that was given; who
/// serves the rendezvous and why (a sentence from server::decide), the worker's command, and what
/// was changed for the person. Fits into 80 columns where words do; what is for copying (the
/// command, lists of CPUs) is not broken.
std::string explain(
    const JobSpec& spec,
    const Options& options,
    const From<log::Level>& level,
    const std::string& who_serves);

}  // namespace ddprun::launcher
