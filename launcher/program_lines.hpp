// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// Runs a program found on PATH, with /dev/null as standard input and error, and returns its output.
/// Empty when it is missing, fails, or takes too long (it is then killed). Leaves no descriptor
/// behind, and no child unless it hangs in the kernel.
std::string output_of(const std::vector<std::string>& command);

/// How many lines of that output have this prefix.
int count_lines_of(const std::vector<std::string>& command, std::string_view beginning);

}  // namespace ddprun::launcher
