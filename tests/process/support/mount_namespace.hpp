// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::test {

/// Empty if a program can get its own mounts; else the reason for a skip. It needs root privileges
/// and a root folder that is a mount point, which in a chroot it need not be.
std::string why_no_mount_namespace();

}  // namespace ddprun::test
