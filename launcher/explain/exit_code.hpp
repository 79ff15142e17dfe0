// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/options.hpp"
#include "rendezvous/base/result.hpp"

namespace ddprun::launcher {

/// The exit code of a ddprun that ends before an agent exists: 2 for a usage error, 127 for a
/// program or script that was not found, 126 for one that cannot be executed, 1 for anything else.
/// The exit code of a job is decided by the coordinator and is the same on every node; README.md
/// has the whole table.
///
/// `is_as_torchrun`: 1 in every case.
int exit_code_before_start(const Failure& failure, bool is_as_torchrun = false);

/// Whether the exit code is torchrun's. It is if --compat=torchrun is given and the parsed
/// `options` contain no error that torchrun's own parser refuses with 2: a missing script, a word
/// for a number, a value that is not one of a fixed few. torchrun exits with 1 for everything that
/// it checks after parsing.
bool is_exit_code_torchruns(const Options& options);

}  // namespace ddprun::launcher
