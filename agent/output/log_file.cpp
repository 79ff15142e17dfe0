// SPDX-License-Identifier: Apache-2.0
#include "agent/output/log_file.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/result.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr mode_t file_mode = 0666;  // reduced by the umask

}  // namespace

LogFile::LogFile(std::string path, Bounds bounds) : path_(std::move(path)), bounds_(bounds) {}

LogFile::~LogFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

void LogFile::open() {
    std::error_code no_folder;
    std::filesystem::create_directories(std::filesystem::path{path_}.parent_path(), no_folder);
    if (open_file()) return;
    // If the folder is missing, opening the file only reports "does not exist", so the error of
    // making the folder is reported.
    if (errno == ENOENT && no_folder) return lose(0, no_folder.value(), "folder");
    lose(0, errno, "open");
}

bool LogFile::open_file() {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, file_mode);
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) return false;
    size_bytes_ = static_cast<std::uint64_t>(status.st_size);
    return true;
}

void LogFile::write(std::string_view bytes) {
    while (!bytes.empty()) {
        if (!bounds_.max_bytes || descriptor_ < 0) return put(bytes);
        const auto room = room_below(*bounds_.max_bytes);
        if (bytes.size() <= room) return put(bytes);
        // Writes up to the last line that fits. A line that was begun in this file is ended here,
        // if it is not too long.
        const auto last_end = bytes.substr(0, room).rfind('\n');
        const bool may_end_here = ends_with_line_ && size_bytes_ > 0;
        auto size = last_end + 1;
        if (last_end == std::string_view::npos && !may_end_here)
            size = std::min(
                {bytes.size(),
                 std::min(bytes.find('\n'), bytes.size() - 1) + 1,
                 room_below(*bounds_.max_bytes + limits::max_line_bytes)});
        put(bytes.substr(0, size));
        bytes.remove_prefix(size);
        const bool is_too_long = room_below(*bounds_.max_bytes + limits::max_line_bytes) == 0;
        if (size_bytes_ > 0 && (ends_with_line_ || is_too_long)) rotate();
    }
}

std::size_t LogFile::room_below(std::uint64_t bound) const {
    return bound - std::min(size_bytes_, bound);
}

void LogFile::put(std::string_view bytes) {
    while (!bytes.empty()) {
        if (descriptor_ < 0) return lose(bytes.size(), 0, "open");
        const auto written = ::write(descriptor_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return lose(bytes.size(), errno, "write");
        size_bytes_ += static_cast<std::uint64_t>(written);
        ends_with_line_ = bytes[static_cast<std::size_t>(written) - 1] == '\n';
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    if (std::exchange(is_failing_, false))
        log::warning("log.resumed", {{"path", path_}, {"lost_bytes", lost_bytes_}});
}

void LogFile::rotate() {
    if (last_rotated_ == 0)
        while (::access(rotated_path(last_rotated_ + 1).c_str(), F_OK) == 0)
            ++last_rotated_;
    const auto target = rotated_path(last_rotated_ + 1);
    if (std::rename(path_.c_str(), target.c_str()) != 0) {
        // Rotation failed: a growing file is better than none.
        bounds_.max_bytes.reset();
        log::error(
            "log.failed",
            {{"path", path_},
             {"step", "rename"},
             {"reason", system_code(errno).message()},
             {"effect", "this file grows beyond its size"}});
        return;
    }
    ++last_rotated_;
    ::close(std::exchange(descriptor_, -1));
    if (!open_file()) lose(0, errno, "open");
    if (!bounds_.kept) return;
    const auto kept = static_cast<std::uint64_t>(*bounds_.kept);
    if (last_rotated_ > kept) std::remove(rotated_path(last_rotated_ - kept).c_str());
}

void LogFile::lose(std::size_t bytes, int error_number, const char* step) {
    lost_bytes_ += bytes;
    if (std::exchange(is_failing_, true)) return;
    log::error(
        "log.failed",
        {{"path", path_},
         {"step", step},
         {"reason", system_code(error_number).message()},
         {"effect", "the job goes on, its output is lost here until there is room again"}});
}

}  // namespace ddprun::agent
