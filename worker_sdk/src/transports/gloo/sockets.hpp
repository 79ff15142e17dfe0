// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>

namespace ddprun::groups {

/// Descriptors of sockets, and which sockets they are (inode).
using Sockets = std::map<int, ino_t>;

/// The sockets of this process. Empty without /proc.
Sockets open_sockets();

/// Programs that the worker starts would inherit Gloo's sockets, and while one of them runs the
/// peers would not detect the worker's death. Returns Gloo's sockets: all opened since `before`.
Sockets close_on_exec_all_but(const Sockets& before);

/// Whether one of them is closed. Its descriptor number may be reused by then.
bool is_any_closed(const Sockets& sockets);

}  // namespace ddprun::groups
