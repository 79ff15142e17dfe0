// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/world.hpp"

#include <functional>

namespace ddprun::environment {

/// The value of a variable, or null when it is not set (`getenv`, or a table in a test).
using Lookup = std::function<const char*(const char* name)>;

/// `World::from_environment` without the environment: reads and checks each value. A variable that
/// is set to nothing counts as not set. Throws UsageError, which names the variable, what it holds
/// and what is accepted.
World read_world(const Lookup& lookup);

}  // namespace ddprun::environment
