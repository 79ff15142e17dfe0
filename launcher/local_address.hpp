// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <span>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// One address of one network interface, numeric.
struct InterfaceAddress {
    std::string interface;
    std::string address;
};

/// Reads --local-addr: an address or host name (returned as it is), the name of an interface (its
/// first IPv4 address, else its first IPv6 one), or a network in CIDR notation (the first address
/// of this machine inside it). On error the context is what was given and what is accepted.
Result<std::string> resolve_local_address(
    std::string_view text, std::span<const InterfaceAddress> interfaces);

}  // namespace ddprun::launcher
