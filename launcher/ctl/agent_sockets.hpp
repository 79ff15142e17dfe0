// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ctl {

/// Where an agent listens for `ddprunctl`. Any program may listen under such a name: its real user
/// is only known from the system once there is a connection.
struct AgentSocket {
    /// Without the `@`.
    std::string name;
    /// The keeper's pid, according to the name.
    int pid = 0;
    /// The user according to the name, which any program may have chosen.
    unsigned user = 0;

    bool operator==(const AgentSocket&) const = default;
};

/// The sockets listed in the text of /proc/net/unix, in order of their pids.
std::vector<AgentSocket> agent_sockets(std::string_view table);

}  // namespace ddprun::launcher::ctl
