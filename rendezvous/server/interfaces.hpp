// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::server {

/// One address of one network interface, numeric, without an IPv6 scope.
struct InterfaceAddress {
    std::string interface;
    std::string address;
};

/// The addresses of all interfaces of this machine, both families. Empty when the system does not
/// report them.
std::vector<InterfaceAddress> interfaces();
/// The addresses alone; for `PlacementFacts::own`.
std::vector<std::string> interface_addresses();
/// The interface that has this numeric address, or that its IPv6 scope names; empty: none.
std::string interface_with(std::string_view address);

}  // namespace ddprun::server
