// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/tcp.h>

namespace ddprun::groups {

/// A machine that has lost its power or its network closes no connection. The kernel asks such a
/// peer more and more rarely, for a quarter of an hour, while data for it wait. So its own facts
/// are looked at. TCP_USER_TIMEOUT would also end a connection to a peer that is busy and reads
/// nothing: its window is closed, but it answers.
void ask_when_idle(int socket);

/// Whether the other machine has answered nothing for `waiting_times::silent_machine_timeout`,
/// although it was asked several times.
bool is_silent(const tcp_info& facts);
/// False where the kernel has no facts.
bool is_silent(int socket);

}  // namespace ddprun::groups
