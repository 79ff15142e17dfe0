// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun::control {

/// What `--version` prints: name and version; commit, processor, linkage and compiler; the versions
/// of its protocols. Three lines, each ended by a newline.
std::string version_text(std::string_view program);

}  // namespace ddprun::control
