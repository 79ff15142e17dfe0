// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// What a program may take. With more it is ended, by SIGTERM and after two seconds by SIGKILL.
struct ProgramLimits {
    Duration time;
    /// Of its standard output.
    std::size_t bytes;
};

/// What a program has written, and how it ended.
struct ProgramEnd {
    /// It ended by itself, with code 0.
    bool is_success = false;
    std::string output = {};
    /// The end of what is on its standard error, or why it could not run to its end.
    std::string errors = {};
};

/// Runs a program found on PATH, with /dev/null as standard input. Leaves no descriptor behind, and
/// no child unless it hangs in the kernel.
ProgramEnd run_program(const std::vector<std::string>& command, const ProgramLimits& limits);

}  // namespace ddprun::launcher
