// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::net {

/// Raises the descriptor limit to the hard limit and allocates the table for it. To be called
/// before the first thread is started: once a process has threads, its table of descriptors grows
/// only after an RCU grace period (synchronize_rcu), 10 to 30 ms at each doubling.
void prepare_descriptors();

/// Empty, or a line: the hard limit is too low for `needed` descriptors beside those that this
/// process has already.
std::string lacking_descriptors(int needed);

/// Whether a system call has failed because descriptors or memory are used up: later it may
/// succeed.
bool is_shortage(int error);

/// Whether so many can be had now. Asio leaks one each time that it is refused the second or third
/// of an io_context.
bool can_open_descriptors(int count);

}  // namespace ddprun::net
