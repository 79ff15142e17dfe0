// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::test {

/// Empty where a program can be given mounts of its own; otherwise the reason for a skip: it needs
/// root, and a root that is a mount point, which that of a chroot need not be.
std::string why_no_mount_namespace();

}  // namespace ddprun::test
