// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/world.hpp"
#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/world/init_method.hpp"

#include <optional>
#include <string_view>

namespace ddprun::environment {

/// `World::from` with an explicit environment: reads and checks each value. An empty variable
/// counts as not set. Throws UsageError, which names the variable, what it holds and what is
/// accepted.
World read_world(const Lookup& lookup, const InitMethod& method = {});

/// The rank with which state the round begins; none: the variable is not set. Throws UsageError like
/// `read_world`.
std::optional<StateSource> read_state_source(const Lookup& lookup);

/// How many tasks Slurm's "2(x3),1" gives to a node; 0 when the text does not contain the node.
int tasks_on_node(std::string_view text, int node);

}  // namespace ddprun::environment
