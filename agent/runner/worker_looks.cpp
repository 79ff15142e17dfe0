// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/worker_looks.hpp"

#include "agent/health/sampler.hpp"
#include "agent/plan/socket_table.hpp"
#include "agent/process/store_clients.hpp"

#include <cstddef>
#include <utility>

namespace ddprun::agent {

Agent::WorkersSeen look_at_workers(const Agent::LookAtWorkers& order) {
    Agent::WorkersSeen seen{order.round, {}};
    auto samples = health::take_samples(order.pids);
    for (std::size_t local_rank = 0; local_rank < order.pids.size(); ++local_rank)
        if (order.pids[local_rank] != 0)
            seen.looks.push_back({static_cast<int>(local_rank), std::move(samples[local_rank])});
    return seen;
}

Agent::StoreClientsFound look_for_store_clients(
    const Agent::FindStoreClients& order, std::uint16_t port, const std::string& tunnel) {
    auto clients = find_store_clients(order.round, port, order.pids);
    clients.ended = order.ended;
    if (!tunnel.empty()) name_by_tunnel(clients, tunnel);
    return {std::move(clients)};
}

}  // namespace ddprun::agent
