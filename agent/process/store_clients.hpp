// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <vector>

namespace ddprun::agent {

/// Which of these workers, with the processes below them, have a connection to `port`, by /proc.
/// Allocates and may block: a process that calls exec holds its descriptors. From any thread.
///
/// A worker is reported as unconnected only where every descriptor of its processes could be read,
/// in the network of this process, and two readings of the kernel's table have none of them.
control::StoreClients find_store_clients(
    int round, std::uint16_t port, const std::vector<int>& pids_by_local_rank);

}  // namespace ddprun::agent
