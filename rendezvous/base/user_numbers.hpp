// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ddprun {

/// The kernel's facts about the users of a process's user namespace; either may be empty.
struct UserNumbers {
    /// /proc/self/uid_map
    std::string_view map;
    /// /proc/sys/kernel/overflowuid
    std::string_view overflow;
};

/// Whether a uid from the kernel identifies a single user. In a user namespace all users without a
/// mapping appear under the same uid (usually 65534).
bool means_one_user(unsigned user, const UserNumbers& numbers);

}  // namespace ddprun
