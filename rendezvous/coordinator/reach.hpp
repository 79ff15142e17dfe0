// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/effects.hpp"

#include <string>

/// Where the other members of a job reach a node.
namespace ddprun::coordinator {

struct Reach {
    /// Numeric; of no use when `is_beside_server`.
    std::string addr;
    /// It connected through the loopback: it is on this machine, and others reach it under the
    /// address under which they reach the server.
    bool is_beside_server = false;

    bool operator==(const Reach&) const = default;
};

/// What was given (--local-addr), else the node's own end of its connection. A loopback address
/// that is not what the server sees comes from a tunnel or proxy and is of no use to other nodes:
/// an error whose context names --local-addr.
Result<Reach> reach_of(const control::Join& join, const Connected& connection);

/// `node` as sent to a member that has this connection.
const std::string& address_for(const Reach& node, const Connected& member);

/// The node is on the machine that the endpoint names.
bool is_endpoint_host(const Reach& node, const Connected& connection);

}  // namespace ddprun::coordinator
