// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun::agent {

/// Writes a whole file. A second file is written beside it and then renamed, so that a reader sees
/// the whole new text or the whole old text. The text is written to the path itself if the folder
/// does not allow this (a mounted /dev/termination-log), or if the path is a link, pipe or device.
/// Returns 0 or the errno. May block as long as the disk does.
int replace_file(const std::string& path, std::string_view text);

}  // namespace ddprun::agent
