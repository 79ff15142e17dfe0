// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolve/job_spec.hpp"

#include <string>

namespace ddprun::launcher {

/// What `--explain` prints: every value with its origin, and every given option; which node serves
/// the rendezvous and why (a sentence from server::decide), the worker's command, and what ddprun
/// changed by itself. Wrapped at 80 columns between words; text to be copied (the command, lists of
/// CPUs) is not wrapped.
std::string explain(
    const JobSpec& spec,
    const Options& options,
    const From<log::Level>& level,
    const std::string& server_placement);

}  // namespace ddprun::launcher
