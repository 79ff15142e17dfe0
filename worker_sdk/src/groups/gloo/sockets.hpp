// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>

namespace ddprun::groups {

/// Descriptors of sockets, and which sockets they are (inode).
using Sockets = std::map<int, ino_t>;

/// Those of this process. Empty without /proc.
Sockets open_sockets();

/// Gloo's sockets would be inherited by programs that the worker starts, and while one of them
/// lives the peers would not see the worker's death. Returns them: all that came since `before`.
Sockets close_on_exec_all_but(const Sockets& before);

/// Whether one of them is closed. Its number may be somebody else's by now.
bool is_any_closed(const Sockets& sockets);

}  // namespace ddprun::groups
