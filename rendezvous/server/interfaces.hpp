// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ddprun::server {

/// Numeric addresses of all interfaces of this machine, both families, without IPv6 scopes; for
/// `PlacementFacts::own`. Empty when the system does not report them.
std::vector<std::string> interface_addresses();

}  // namespace ddprun::server
