// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "rendezvous/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Checkpoint files on a disk: their names, whole ones read and written, and the content of their
/// folder.
namespace ddprun::checkpoint {

/// The position in a file's name; larger is newer.
struct Position {
    std::uint64_t round = 0;
    std::uint64_t step = 0;
    auto operator<=>(const Position&) const = default;
};

std::string file_name(Position position);
std::optional<Position> position_in(std::string_view file_name);

/// Prefix of the name of an unfinished file.
inline constexpr std::string_view unfinished_prefix = ".unfinished-";

/// The content of a checkpoint file; only its size has been checked. Refuses anything but a regular
/// file, and never blocks on one.
Result<std::vector<std::byte>> read_file(const std::string& path);

/// Writes a temporary file beside `path`, flushes, renames and flushes the folder. A failed write
/// leaves no file. Requires: the checkpoint is valid (`check`).
Result<> write_file(const std::string& path, const Checkpoint& checkpoint);

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
