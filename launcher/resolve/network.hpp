// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/server/interfaces.hpp"

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace ddprun::launcher {

using server::InterfaceAddress;

/// Whether a host name has an address, as this machine sees it.
using HasAddress = std::function<bool(const std::string& name)>;

/// Reads --local-addr: an address or host name (returned as it is; one without a dot must have an
/// address, which is asked last), the name of an interface (its first IPv4 address, else its first
/// IPv6 one), or a network in CIDR notation (the first address of this machine inside it). On error
/// the context is what was given, what is accepted and which interfaces there are.
Result<std::string> resolve_local_address(
    std::string_view text,
    std::span<const InterfaceAddress> interfaces,
    const HasAddress& has_address);

}  // namespace ddprun::launcher
