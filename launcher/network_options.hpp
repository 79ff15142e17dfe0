// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolving.hpp"

namespace ddprun::launcher {

/// Fills local_addr and ports: how other nodes reach this one, and where it listens.
Result<> resolve_network(Resolving& job);

}  // namespace ddprun::launcher
