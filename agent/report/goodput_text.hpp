// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <string>

namespace ddprun::agent {

/// Whether the job has reported steps: without any, only its total time is known.
bool is_measured(const control::Goodput& goodput);

/// "2h13m: productive 94.1 %, redone 1.2 %, first step 0.8 %": phases that are at least 0.05 %.
/// Requires: the sum is not 0.
std::string goodput_text(const control::Goodput& goodput);

}  // namespace ddprun::agent
