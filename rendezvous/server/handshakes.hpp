// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace ddprun::server {

/// The connections that have not proved the secret yet. When there are too many, it selects one to
/// close: the oldest of the busiest address in the busiest network, so that a flood from one
/// address does not displace callers from others. Pure.
class Handshakes {
public:
    explicit Handshakes(std::size_t most = limits::max_tls_handshakes) : most_(most) {}

    struct Caller {
        std::string network;
        std::string address;
    };

    /// Adds a connection. Returns a connection that must be closed, if there is one, and no longer
    /// counts it. This may be the added connection if its address has others. Requires: ids grow.
    std::optional<ConnectionId> add(ConnectionId id, const Caller& caller, Instant now);
    /// The connection has proved the secret, or has ended. Harmless when repeated.
    void remove(ConnectionId id);
    std::size_t size() const { return by_id_.size(); }

private:
    struct Entry {
        Caller caller;
        Instant began_at;
    };
    struct Network {
        std::size_t size = 0;
        std::map<std::string, std::set<ConnectionId>> by_address;
    };

    ConnectionId oldest_of_busiest() const;

    std::size_t most_;
    std::map<ConnectionId, Entry> by_id_;
    std::map<std::string, Network> by_network_;
};

}  // namespace ddprun::server
