// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "rendezvous/base/result.hpp"
#include "worker_sdk/src/checkpoint/format.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Checkpoint files on disk: their names, reading and writing them whole, and listing their folder.
namespace ddprun::checkpoint {

/// The position in a file's name; larger is newer.
struct Position {
    std::uint64_t round = 0;
    std::uint64_t step = 0;
    auto operator<=>(const Position&) const = default;
};

std::string file_name(Position position);
std::optional<Position> position_in(std::string_view file_name);

/// One rank's file of a set of `world` files.
struct ShardName {
    static constexpr std::uint64_t most_ranks = 1'000'000;

    Position position;
    std::uint64_t world = 1;
    std::uint64_t index = 0;
    auto operator<=>(const ShardName&) const = default;
};

std::string shard_file_name(const ShardName& shard);
std::optional<ShardName> shard_in(std::string_view file_name);

/// Prefix of the name of an unfinished file.
inline constexpr std::string_view unfinished_prefix = ".unfinished-";

/// A checkpoint file that is being read, from its beginning. Refuses anything but a regular file,
/// and never blocks on one.
class FileReader {
public:
    static Result<FileReader> open(const std::string& path);
    FileReader(FileReader&& other) noexcept;
    FileReader& operator=(FileReader&& other) noexcept;
    ~FileReader();

    const std::string& path() const { return path_; }
    std::uint64_t size() const { return size_; }
    /// Fills the whole span.
    Result<> read(std::span<std::byte> target);
    /// Makes the next read start at the beginning.
    Result<> rewind();

private:
    FileReader(std::string path, int descriptor, std::uint64_t size)
        : path_(std::move(path)),
          descriptor_(descriptor),
          size_(size) {}

    std::string path_;
    int descriptor_;
    std::uint64_t size_;
};

/// Writes a temporary file beside `path`, flushes, renames and flushes the folder. A failed write
/// leaves no file. Requires: the checkpoint is valid (`check`).
Result<> write_file(const std::string& path, const Checkpoint& checkpoint);

struct Listing {
    std::vector<Position> checkpoints;  ///< by their names, newest first
    std::vector<ShardName> shards;      ///< by their names, newest first
    std::vector<std::string> unfinished;
};

/// A folder that does not exist counts as empty. Throws Error when it cannot be read.
Listing list(const std::string& folder);

std::string path_in(const std::string& folder, Position position);
std::string shard_path_in(const std::string& folder, const ShardName& shard);

/// Decodes the file from its beginning, wherever the last read ended.
Result<Checkpoint> read(FileReader& file, const Destination& destination);
/// Like `read`, but an error unless the checkpoint has the position in the file's name.
Result<Checkpoint> read_at(FileReader& file, Position position, const Destination& destination);

/// Throws UsageError for targets that no file can fit: two of one name, or one without memory.
void check_targets(std::span<const TensorTarget> targets);

}  // namespace ddprun::checkpoint
