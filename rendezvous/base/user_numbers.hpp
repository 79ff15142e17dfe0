// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ddprun {

/// What the kernel says of the users of a process's user namespace; either may be empty.
struct UserNumbers {
    /// /proc/self/uid_map
    std::string_view map;
    /// /proc/sys/kernel/overflowuid
    std::string_view overflow;
};

/// Whether the number of a user, as the kernel gives it, means one user. In a user namespace all
/// users that have no number there appear under the same one (65534, as a rule).
bool means_one_user(unsigned user, const UserNumbers& numbers);

}  // namespace ddprun
