// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::agent {
struct InheritedState;
}

namespace ddprun::launcher {

/// Does everything between the command line and the exit code: options, the spec, the output of
/// `--help`, `--version` and `--explain`, then the fork into keeper and agent. Returns in both
/// processes. Requires: no thread was ever started in this process; `start` was captured first of
/// all.
int run(
    int argc,
    const char* const* argv,
    const char* const* environment,
    const agent::InheritedState& start);

}  // namespace ddprun::launcher
