// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <vector>

namespace ddprun::agent {

/// Determines from /proc which of these workers, including their descendants, have a connection to
/// `port`. Allocates, and may block on a process that calls exec. From any thread.
///
/// Three conditions must hold before a worker is reported as unconnected: all descriptors of its
/// processes could be read, its processes are in this process's network namespace, and two readings
/// of the kernel's table contain none of its sockets.
control::StoreClients find_store_clients(
    int round, std::uint16_t port, const std::vector<int>& pids_by_local_rank);

}  // namespace ddprun::agent
