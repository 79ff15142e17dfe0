// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/network_hosts.hpp"

#include <string>

namespace ddprun::test {

NetworkHosts::NetworkHosts(std::size_t count) {
    const std::string bridge = "bridge";
    must_ip({"-n", bridge_.name(), "link", "add", bridge, "type", "bridge"});
    set_link({bridge_.name(), bridge}, "up");
    for (std::size_t i = 0; i < count; ++i) {
        const auto number = std::to_string(i + 1);
        const auto& host = namespaces_.emplace_back("h" + number).name();
        hosts_.push_back({host, "10.77.0." + number});
        const CableEnd port{bridge_.name(), host};
        lay_cable({host, host}, port);
        must_ip({"-n", port.host, "link", "set", port.interface, "master", bridge});
        set_link(port, "up");
        plug_in({host, host}, hosts_.back().address + "/24");
    }
}

// At the bridge: a host keeps its address and its route, as with a real cable.
void NetworkHosts::cut(std::size_t index) const {
    set_link({bridge_.name(), hosts_[index].name}, "down");
}

void NetworkHosts::heal(std::size_t index) const {
    set_link({bridge_.name(), hosts_[index].name}, "up");
}

}  // namespace ddprun::test
