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

/// The connections that have not proved the secret yet, and which of them is closed when there are
/// too many: the oldest of the address that has most in the network that has most, so that no flood
/// from one address takes the place of a caller from another. Pure.
class Handshakes {
public:
    explicit Handshakes(std::size_t most = limits::max_tls_handshakes) : most_(most) {}

    struct Caller {
        std::string network;
        std::string address;
    };

    /// Adds one. The answer is a connection that must be closed, which is not counted any more: it
    /// may be this one, where its address has others. Requires: ids grow.
    std::optional<ConnectionId> add(ConnectionId id, const Caller& caller, Instant now);
    /// It has proved the secret, or has ended. Harmless when repeated.
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
