// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <string>
#include <utility>

namespace ddprun::agent {

/// How other nodes and their workers reach this one.
class NodeAddress {
public:
    /// `own_name_problem`: AgentConfig.
    explicit NodeAddress(std::string own_name_problem)
        : own_name_problem_(std::move(own_name_problem)) {}

    /// Where other nodes reach this one. A node that hosts the server connects to it over the
    /// loopback: the route to a neighbour shows which of its addresses the others use.
    static std::string towards(const control::Assignment& assignment, std::string own);

    /// For GLOO_SOCKET_IFNAME: the interface that has `node_addr`, where Gloo would choose one that
    /// other nodes do not reach; logged once. Empty: Gloo chooses well by itself, or nothing better
    /// is known.
    std::string gloo_interface(const std::string& node_addr);

private:
    std::string own_name_problem_;
    bool has_announced_ = false;
};

}  // namespace ddprun::agent
