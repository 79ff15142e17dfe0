// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::launcher {

/// For a `ddprun` that `ddprun --hosts` has put into a cache folder and started: marks this copy as
/// in use until the process ends, for all hosts that share the folder, and removes older ones that
/// are not in use. Does nothing when `own_target` is no such copy, or the folder does not belong to
/// the user. After an error a copy stays where it is.
void keep_few_program_copies(const std::string& own_target);

}  // namespace ddprun::launcher
