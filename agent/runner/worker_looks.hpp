// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent.hpp"

#include <cstdint>
#include <string>

/// What is found out about this node's workers by looking at them: for a thread that may hang.
namespace ddprun::agent {

Agent::WorkersSeen look_at_workers(const Agent::LookAtWorkers& order);

/// `port`: of the round's store, where this node's workers reach it. `tunnel`: what that store
/// takes their streams to come from; empty: there is no tunnel.
Agent::StoreClientsFound look_for_store_clients(
    const Agent::FindStoreClients& order, std::uint16_t port, const std::string& tunnel);

}  // namespace ddprun::agent
