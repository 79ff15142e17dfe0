// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/store/meeting_file.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/world/numbers.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ddprun::store_access {
namespace {

constexpr std::string_view first_line = "ddprun-meeting 1";
constexpr std::string_view last_line = "end";
constexpr const char* name_in_folder = "ddprun-meeting";
constexpr std::size_t most_addresses = 64;
constexpr std::size_t most_bytes = 16 * 1024;
constexpr std::size_t longest_word = 255;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
    throw UsageError("init method file://" + file + ": " + why);
}

[[noreturn]] void refuse(const std::string& file, int error) {
    refuse(file, std::string{"cannot be written: "} + std::strerror(error));
}

bool exists(const std::string& file) {
    return ::access(file.c_str(), F_OK) == 0;
}

std::string_view next_line(std::string_view& text) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return {};
    const auto line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
}

/// An NFS client caches for a while that a file does not exist; listing the folder refreshes the
/// cache.
void look_at_folder(const std::string& file) {
    const auto folder = file.substr(0, file.rfind('/') + 1);
    if (DIR* listing = ::opendir(folder.c_str())) {
        ::readdir(listing);
        ::closedir(listing);
    }
}

bool write_whole(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const auto written = ::write(descriptor, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return ::fsync(descriptor) == 0;
}

}  // namespace

std::string to_text(const MeetingPoint& point) {
    auto text = std::string{first_line} + "\ntoken " + point.token + "\nport " +
                std::to_string(point.port) + '\n';
    for (const auto& address : point.addresses)
        text += "address " + address + '\n';
    return text + std::string{last_line} + '\n';
}

std::optional<MeetingPoint> parse_meeting_point(std::string_view text) {
    if (text.size() > most_bytes || next_line(text) != first_line) return std::nullopt;
    MeetingPoint point;
    for (;;) {
        const auto line = next_line(text);
        if (line == last_line) break;
        const auto blank = line.find(' ');
        if (blank == std::string_view::npos) return std::nullopt;
        const auto name = line.substr(0, blank);
        const auto value = line.substr(blank + 1);
        if (value.empty() || value.size() > longest_word) return std::nullopt;
        if (name == "token") {
            point.token = value;
        } else if (name == "port") {
            const auto port = digits(value);
            if (!port || *port < 1 || *port > 65'535) return std::nullopt;
            point.port = static_cast<std::uint16_t>(*port);
        } else if (name == "address") {
            if (point.addresses.size() == most_addresses) return std::nullopt;
            point.addresses.emplace_back(value);
        } else {
            return std::nullopt;
        }
    }
    const bool is_whole = !point.token.empty() && point.port != 0 && !point.addresses.empty();
    return is_whole ? std::optional{point} : std::nullopt;
}

std::string meeting_file(const std::string& path) {
    struct stat status {};
    const bool is_folder = ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    if (!is_folder) return path;
    return path + (path.back() == '/' ? "" : "/") + name_in_folder;
}

std::optional<MeetingPoint> read_meeting_file(const std::string& file) {
    look_at_folder(file);
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return std::nullopt;
    std::string text;
    std::array<char, 4096> chunk;
    while (text.size() <= most_bytes) {
        const auto size = ::read(descriptor, chunk.data(), chunk.size());
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) break;
        text.append(chunk.data(), static_cast<std::size_t>(size));
    }
    ::close(descriptor);
    return parse_meeting_point(text);
}

PublishedMeeting::PublishedMeeting(std::string file, MeetingPoint point)
    : file_(std::move(file)),
      point_(std::move(point)) {
    // Checked twice: it may just have been removed.
    if (!read_meeting_file(file_) && exists(file_) && !read_meeting_file(file_))
        refuse(file_, "there is something else; name a file that does not exist, or a folder");
    const auto written_first = file_ + "." + point_.token;
    const int descriptor =
        ::open(written_first.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor < 0) refuse(file_, errno);
    const bool is_whole = write_whole(descriptor, to_text(point_));
    int error = errno;
    const bool is_closed = ::close(descriptor) == 0;
    if (is_whole && is_closed && ::rename(written_first.c_str(), file_.c_str()) == 0) return;
    if (is_whole) error = errno;
    ::unlink(written_first.c_str());
    refuse(file_, error);
}

PublishedMeeting::~PublishedMeeting() {
    if (read_meeting_file(file_) != point_) return;
    const auto aside = file_ + "." + point_.token;
    if (::rename(file_.c_str(), aside.c_str()) != 0) return;
    // The file of the next run, written just now, is put back, unless there is a newer one already.
    if (read_meeting_file(aside) != point_) ::link(aside.c_str(), file_.c_str());
    ::unlink(aside.c_str());
}

}  // namespace ddprun::store_access
