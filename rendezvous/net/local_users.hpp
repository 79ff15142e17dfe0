// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::net {

/// As `ddprun::means_one_user`, in this process.
bool means_one_user(unsigned user);

}  // namespace ddprun::net
