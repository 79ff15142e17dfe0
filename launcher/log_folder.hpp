// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolve/output_options.hpp"

namespace ddprun::launcher {

/// Makes the folder for log files, if log files are wanted, and stores its absolute path in the
/// plan. Called before the fork, so that an unusable folder is an error of the command line and not
/// of the first line of output. `notice` gets the path if no option chose it. On error the context
/// reads "option: what was given: what is wrong".
Result<> make_log_folder(OutputSpec& spec, std::string& notice);

}  // namespace ddprun::launcher
