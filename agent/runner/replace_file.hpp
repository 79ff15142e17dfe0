// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun::agent {

/// Writes a whole file: a second one beside it, then one step, so that a reader sees the whole text
/// or what was there; where the folder allows none (a mounted /dev/termination-log), and where a
/// link, a pipe or a device is, into that itself. 0 or the errno. May block as long as the disk
/// does.
int replace_file(const std::string& path, std::string_view text);

}  // namespace ddprun::agent
