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

/// Whether this machine's resolver has an address for a host name.
using HasAddress = std::function<bool(const std::string& name)>;

/// Reads --local-addr, in one of three forms. An address or host name is returned unchanged; a name
/// without a dot must have an address, which is checked last. For the name of an interface, its
/// first IPv4 address is returned, or else its first IPv6 one. For a network in CIDR notation, it
/// is the first address of this machine inside it. The context of an error names the given text,
/// the accepted forms and the interfaces.
Result<std::string> resolve_local_address(
    std::string_view text,
    std::span<const InterfaceAddress> interfaces,
    const HasAddress& has_address);

}  // namespace ddprun::launcher
