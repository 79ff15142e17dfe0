// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::store_access {

/// What rank 0 writes at the path of a `file://` init method: where its store listens. The token is
/// in the store too, so that another server at an address of an earlier run, or at an address that
/// belongs to another machine on this network, is not mistaken for it.
struct MeetingPoint {
    std::string token;
    std::uint16_t port = 0;
    /// In the order in which they are to be tried.
    std::vector<std::string> addresses;

    bool operator==(const MeetingPoint&) const = default;
};

/// Lines "NAME VALUE", the last one "end": a file that is still being copied is not accepted.
std::string to_text(const MeetingPoint& point);
/// Nothing when the text is incomplete.
std::optional<MeetingPoint> parse_meeting_point(std::string_view text);

/// The file of a path: the path itself, or a file in it if it is a folder.
std::string meeting_file(const std::string& path);

/// Nothing when there is no file, or an incomplete one.
std::optional<MeetingPoint> read_meeting_file(const std::string& file);

/// Owns the file; the destructor removes it unless another process has replaced it. Needs no locks:
/// the file is created by a rename.
class PublishedMeeting {
public:
    /// Throws UsageError when it cannot be written.
    PublishedMeeting(std::string file, MeetingPoint point);
    PublishedMeeting(const PublishedMeeting&) = delete;
    PublishedMeeting& operator=(const PublishedMeeting&) = delete;
    ~PublishedMeeting();

private:
    std::string file_;
    MeetingPoint point_;
};

}  // namespace ddprun::store_access
