// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/support/network_namespace.hpp"
#include "tests/process/support/network_pair.hpp"

#include <cstddef>
#include <vector>

namespace ddprun::test {

/// Hosts on one machine, each with a cable to one bridge, which is in a namespace of its own; all
/// are removed at the end of the scope. IPv4 only.
class NetworkHosts {
public:
    static std::string why_not() { return NetworkNamespace::why_not(); }

    explicit NetworkHosts(std::size_t count);

    const NetworkPair::Host& operator[](std::size_t index) const { return hosts_[index]; }

    /// Pulls the cable of one host, and plugs it in again.
    void cut(std::size_t index) const;
    void heal(std::size_t index) const;

private:
    NetworkNamespace bridge_{"s"};
    std::vector<NetworkNamespace> namespaces_;
    std::vector<NetworkPair::Host> hosts_;
};

}  // namespace ddprun::test
