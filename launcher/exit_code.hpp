// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

namespace ddprun::launcher {

/// What ddprun exits with when it ends before an agent exists: a usage error is 2, a program or
/// script not found 127, one that cannot be executed 126, anything else 1. What a job ends with is
/// the coordinator's business and the same on every node; the whole table is in README.md.
///
/// `is_torchrun_wanted`: 1 for all but a usage error, as torchrun has it.
int exit_code_before_start(const Failure& failure, bool is_torchrun_wanted = false);

}  // namespace ddprun::launcher
