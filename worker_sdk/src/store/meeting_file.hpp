// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::store_access {

/// What rank 0 writes at the path of a `file://` init method: where its store listens. The token
/// is in the store too, so that whoever answers at an address that an earlier run left, or that
/// belongs to another machine here, is not taken for it.
struct MeetingPoint {
    std::string token;
    std::uint16_t port = 0;
    /// In the order in which they are to be tried.
    std::vector<std::string> addresses;

    bool operator==(const MeetingPoint&) const = default;
};

/// Lines "NAME VALUE", the last one "end": a file that is read while it is copied is not taken.
std::string to_text(const MeetingPoint& point);
/// Nothing when the text is not a whole one.
std::optional<MeetingPoint> parse_meeting_point(std::string_view text);

/// The file that is meant by a path: itself, or one in it if it is a folder.
std::string meeting_file(const std::string& path);

/// Nothing when there is none, or not a whole one.
std::optional<MeetingPoint> read_meeting_file(const std::string& file);

/// The file while it lives; the destructor takes it away if nobody else has written there since.
/// Needs no locks: the file comes into being by a rename.
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
