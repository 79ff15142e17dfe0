// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::net {

/// Raises the descriptor limit to the hard limit and allocates the table for it. Call it before the
/// first thread is started: once a process has threads, its table of descriptors grows only after
/// an RCU grace period (synchronize_rcu), 10 to 30 ms at each doubling.
void prepare_descriptors();

/// Empty, or a warning: the hard limit is too low for `needed` descriptors in addition to those
/// already open.
std::string lacking_descriptors(int needed);

/// Whether a system call failed because descriptors or memory were used up: it may succeed later.
bool is_shortage(int error);

/// Whether `count` descriptors can be opened now. Asio leaks a descriptor whenever opening the
/// second or third one of an io_context fails.
bool can_open_descriptors(int count);

}  // namespace ddprun::net
