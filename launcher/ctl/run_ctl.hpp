// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ddprun::launcher::ctl {

/// Whether the program was called as `ddprunctl`. One executable is both programs, so that they are
/// always of the same release and the second needs no space.
bool is_called_ctl(std::string_view called_as);

/// `ddprunctl`, from its command line to its exit code.
int run_ctl(int argc, const char* const* argv);

}  // namespace ddprun::launcher::ctl
