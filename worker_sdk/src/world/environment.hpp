// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/world.hpp"
#include "worker_sdk/src/world/init_method.hpp"
#include "worker_sdk/src/world/lookup.hpp"

namespace ddprun::environment {

/// `World::from` without the environment: reads and checks each value. An empty variable counts as
/// not set. Throws UsageError, which names the variable, what it holds and what is accepted.
World read_world(const Lookup& lookup, const InitMethod& method = {});

}  // namespace ddprun::environment
