// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Checkpoint files on a disk: their names, and whole ones read and written.
namespace ddprun::checkpoint {

/// What a file's name says; larger is newer.
struct Position {
    std::uint64_t round = 0;
    std::uint64_t step = 0;
    auto operator<=>(const Position&) const = default;
};

std::string file_name(Position position);
std::optional<Position> position_in(std::string_view file_name);

/// "A file that a writer did not finish": begins with this.
inline constexpr std::string_view unfinished_prefix = ".unfinished-";

/// The whole of a checkpoint file, which has not been looked at but for its size. Anything but a
/// regular file is refused, and nothing is waited for.
Result<std::vector<std::byte>> read_file(const std::string& path);

/// Writes beside `path`, flushes, renames and flushes the folder. On failure nothing of it is left.
Result<> write_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace ddprun::checkpoint
