// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent.hpp"

#include <cstdint>
#include <string>

/// Inspections of this node's workers. They may hang: call them on a thread that may hang.
namespace ddprun::agent {

Agent::WorkersSeen look_at_workers(const Agent::LookAtWorkers& order);

/// `port`: the port at which this node's workers reach the round's store. `tunnel`: the name that
/// the store uses for their streams; empty: there is no tunnel.
Agent::StoreClientsFound look_for_store_clients(
    const Agent::FindStoreClients& order, std::uint16_t port, const std::string& tunnel);

}  // namespace ddprun::agent
