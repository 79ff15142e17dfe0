// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// The numeric address of this machine from which packets to `server` leave, IPv4-mapped unwrapped.
/// Uses the routing table; sends nothing. Empty when there is no route.
std::string local_address_towards(const Endpoint& server);

/// True when sockets of this machine can be bound to it.
bool is_address_of_this_machine(const std::string& address);

/// The numeric addresses of all interfaces that are up: addresses that other machines can reach
/// first, loopback last, no link-local ones (they are valid on one link only).
std::vector<std::string> addresses_of_this_machine();

}  // namespace ddprun
