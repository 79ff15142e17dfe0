// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/effects.hpp"

#include <string>

/// The address at which other members of a job reach a node.
namespace ddprun::coordinator {

struct Reach {
    /// Numeric; not usable when `is_beside_server`.
    std::string addr;
    /// The node connected through the loopback interface, so it is on the server's machine, and
    /// others reach it at the server's address.
    bool is_beside_server = false;

    bool operator==(const Reach&) const = default;
};

/// The given address (--local-addr), else the node's end of its connection. A loopback address that
/// differs from the peer address at the server belongs to a tunnel or proxy, and other nodes cannot
/// use it. That is an error whose context names --local-addr.
Result<Reach> reach_of(const control::Join& join, const Connected& connection);

/// The node's address as sent to a member that has this connection.
const std::string& address_for(const Reach& node, const Connected& member);

/// Whether the node is on the machine that the endpoint names.
bool is_endpoint_host(const Reach& node, const Connected& connection);

}  // namespace ddprun::coordinator
