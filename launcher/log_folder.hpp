// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/output_options.hpp"

namespace ddprun::launcher {

/// Makes the folder for log files, if there are to be any, and notes its absolute path in the plan:
/// before the fork, so that a bad one is a mistake on the command line and not a surprise at the
/// first line of output. `notice` gets the path where nobody chose it. On error the context reads
/// "option: what was given: what is wrong".
Result<> make_log_folder(OutputSpec& spec, std::string& notice);

}  // namespace ddprun::launcher
