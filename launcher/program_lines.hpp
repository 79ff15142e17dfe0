// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// Runs a program found on PATH, with nothing to read and its errors thrown away, and counts the
/// lines of its output that begin so. 0 when it is not there, fails, or takes too long: it is
/// killed then. Leaves no descriptor behind, and no child unless it hangs in the kernel.
int count_lines_of(const std::vector<std::string>& command, std::string_view beginning);

}  // namespace ddprun::launcher
