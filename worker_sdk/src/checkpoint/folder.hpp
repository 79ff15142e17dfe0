// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/checkpoint/file.hpp"

#include <string>
#include <vector>

/// The content of a folder of checkpoints.
namespace ddprun::checkpoint {

struct Listing {
    std::vector<Position> checkpoints;  ///< by their names, newest first
    std::vector<std::string> unfinished;
};

/// A folder that does not exist counts as empty. Throws Error when it cannot be read.
Listing list(const std::string& folder);

std::string path_in(const std::string& folder, Position position);

/// The bytes of the file at `position`, verified to be a whole checkpoint of that name.
Result<std::vector<std::byte>> read_whole(const std::string& folder, Position position);

}  // namespace ddprun::checkpoint
