// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// The output of a program found on PATH. Empty when it is missing, fails, or takes too long (it is
/// then ended).
std::string output_of(const std::vector<std::string>& command);

/// How many lines of that output have this prefix.
int count_lines_of(const std::vector<std::string>& command, std::string_view beginning);

}  // namespace ddprun::launcher
