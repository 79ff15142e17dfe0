// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace ddprun::net {

/// Calls `ddprun::means_one_user` with the facts of this process. None when no descriptor or memory
/// is left to query the kernel.
std::optional<bool> means_one_user(unsigned user);

}  // namespace ddprun::net
