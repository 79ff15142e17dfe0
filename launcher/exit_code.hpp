// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/options.hpp"
#include "rendezvous/base/result.hpp"

namespace ddprun::launcher {

/// What ddprun exits with when it ends before an agent exists: a usage error is 2, a program or
/// script not found 127, one that cannot be executed 126, anything else 1. What a job ends with is
/// the coordinator's business and the same on every node; the whole table is in README.md.
///
/// `is_as_torchrun`: 1 for all of it.
int exit_code_before_start(const Failure& failure, bool is_as_torchrun = false);

/// Whether --compat=torchrun is given and `options`, which parsed well, have nothing that
/// torchrun's own parser would refuse with 2: no script, a word where it wants a number, an unknown
/// word of a few. Everything that it checks after parsing ends it with 1.
bool is_exit_code_torchruns(const Options& options);

}  // namespace ddprun::launcher
