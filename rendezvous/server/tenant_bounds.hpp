// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// What one tenant of a server may take up, so that it does not take that from the others. Pure.
namespace ddprun::server {

/// The most memory of one tenant: its jobs, their nodes, and the connections; and the messages on
/// these, which are bounded for all tenants together.
inline constexpr std::size_t most_tenant_bytes =
    limits::max_jobs_per_tenant * limits::job_bytes +
    limits::max_nodes_per_tenant * limits::node_bytes +
    limits::max_connections_per_tenant * limits::tls_handshake_bytes + limits::max_control_bytes;

/// The connections that have proved a secret, by tenant, and what each holds in unsent and
/// incomplete messages.
class TenantConnections {
public:
    explicit TenantConnections(std::size_t most = limits::max_connections_per_tenant)
        : most_(most) {}

    /// Adds a connection, or says why no more of this tenant is kept. A server without tenants has
    /// one without a name, which has no bound.
    std::string add(ConnectionId id, const std::string& tenant);
    /// Harmless for one that was not added.
    void remove(ConnectionId id);
    /// Empty: it has proved nothing, or the server has no tenants.
    const std::string& tenant_of(ConnectionId id) const;

private:
    std::size_t most_;
    std::map<ConnectionId, std::string> tenant_of_;
    std::map<std::string, std::size_t> counts_;
};

/// What a connection holds in unsent and incomplete messages.
struct Holder {
    ConnectionId connection;
    std::string tenant;
    std::size_t held_bytes = 0;
};

/// The connection that holds most of the tenant that holds most; none: nothing is held.
std::optional<ConnectionId> biggest_of_biggest(const std::vector<Holder>& holders);

}  // namespace ddprun::server
