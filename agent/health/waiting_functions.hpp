// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/sample.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent::health {

}  // namespace ddprun::agent::health
