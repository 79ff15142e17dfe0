// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// A copy of the program that `ddprun --hosts` has put into the cache folder of a host.
struct ProgramCopy {
    /// The name of its folder: the program's SHA-256.
    std::string name;
    /// Seconds since 1970, by the host's clock.
    std::int64_t used_at = 0;
};

/// Whether this is the name of a copy's folder.
bool is_copy_name(const std::string& name);

/// The copies that may be removed. Kept are the one of this name, the last used of the others
/// (limits::kept_program_copies together), and those that a host may be about to start. Pure.
std::vector<std::string> old_copies(
    std::vector<ProgramCopy> copies, const std::string& own, std::int64_t now);

}  // namespace ddprun::launcher
