// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// A file to which output is appended. Blocks; for the writer's thread.
///
/// A file that has reached its size is renamed to PATH.1, the next to PATH.2 and so on. This is
/// done at the end of a line, so a file may become slightly larger. An error is logged once, and
/// the amount of lost output is logged when writing works again: a full disk is no reason to stop a
/// job.
class LogFile {
public:
    struct Bounds {
        /// Absent: no limit.
        std::optional<std::uint64_t> max_bytes;
        /// How many renamed files are kept; absent: all.
        std::optional<int> kept;
    };

    LogFile(std::string path, Bounds bounds);
    ~LogFile();
    LogFile(const LogFile&) = delete;
    LogFile& operator=(const LogFile&) = delete;

    /// Makes the file and the folders above it.
    void open();
    /// Requires: `open` was called, even if it failed.
    void write(std::string_view bytes);

private:
    bool open_file();
    void put(std::string_view bytes);
    std::size_t room_below(std::uint64_t bound) const;
    void rotate();
    std::string rotated_path(std::uint64_t number) const {
        return path_ + '.' + std::to_string(number);
    }
    void lose(std::size_t bytes, int error_number, const char* step);

    std::string path_;
    Bounds bounds_;
    int descriptor_ = -1;
    std::uint64_t size_bytes_ = 0;
    /// 0: none so far.
    std::uint64_t last_rotated_ = 0;
    std::uint64_t lost_bytes_ = 0;
    bool is_failing_ = false;
    bool ends_with_line_ = true;
};

}  // namespace ddprun::agent
