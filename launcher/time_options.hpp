// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolving.hpp"

namespace ddprun::launcher {

/// Fills join_timeout, last_call_timeout, lease and grace. Requires: --rdzv-conf is resolved.
Result<> resolve_time_limits(Resolving& job);

}  // namespace ddprun::launcher
