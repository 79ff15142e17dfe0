// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <string>
#include <utility>

namespace ddprun::agent {

/// This machine's address on the route to `other`, a numeric address; empty: there is no route.
std::string own_address_towards(const std::string& other);

/// The address at which other nodes and their workers reach this node.
class NodeAddress {
public:
    /// `own_name_problem`: see AgentConfig.
    explicit NodeAddress(std::string own_name_problem)
        : own_name_problem_(std::move(own_name_problem)) {}

    /// The address at which other nodes reach this node. A node that hosts the server connects to
    /// the server over the loopback interface, so `own` is of no use there: the route to a
    /// neighbour shows the address.
    static std::string towards(const control::Assignment& assignment, std::string own);

    /// For GLOO_SOCKET_IFNAME: the interface that has `node_addr`, if Gloo would choose one that
    /// other nodes cannot reach; logged once. Empty: Gloo's own choice is right, or no better one
    /// is known.
    std::string gloo_interface(const std::string& node_addr);

private:
    std::string own_name_problem_;
    bool has_announced_ = false;
};

}  // namespace ddprun::agent
