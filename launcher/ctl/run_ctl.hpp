// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ddprun::launcher::ctl {

/// Whether the program was called `ddprunctl`: one file is both programs, so that the two are
/// always of one release and the second takes no space.
bool is_called_ctl(std::string_view called_as);

/// `ddprunctl`, from its command line to its exit code.
int run_ctl(int argc, const char* const* argv);

}  // namespace ddprun::launcher::ctl
