// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/tcp.h>

namespace ddprun::groups {

/// Detects a machine that has lost its power or network, and so closes no connection. While data
/// for such a peer waits, the kernel sends questions at growing intervals, for a quarter of an
/// hour, before it reports an error. So this code reads the kernel's counters instead.
/// TCP_USER_TIMEOUT would also end a connection to a busy peer that reads nothing: its window is
/// closed, but its machine answers.
void ask_when_idle(int socket);

/// Whether the other machine has answered nothing for `waiting_times::silent_machine_timeout`,
/// despite several questions.
bool is_silent(const tcp_info& facts);
/// False when the kernel has no facts about the socket.
bool is_silent(int socket);

}  // namespace ddprun::groups
