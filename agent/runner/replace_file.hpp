// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun::agent {

/// Writes a whole file: writes a second file beside it and renames that, so that a reader sees the
/// whole new text or the old one. It writes to the path itself if the folder does not allow this (a
/// mounted /dev/termination-log), or if the path is a link, pipe or device. Returns 0 or the errno.
/// May block as long as the disk does.
int replace_file(const std::string& path, std::string_view text);

}  // namespace ddprun::agent
