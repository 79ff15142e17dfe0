// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ctl {

/// Where an agent listens for `ddprunctl`. Any program may listen under such a name: which user's
/// it is, the system says once there is a connection.
struct AgentSocket {
    /// Without the `@`.
    std::string name;
    /// Of the keeper, by the name.
    int pid = 0;
    /// By the name, too: any program may have taken it.
    unsigned user = 0;

    bool operator==(const AgentSocket&) const = default;
};

/// Those in the text of /proc/net/unix, in order of their pids.
std::vector<AgentSocket> agent_sockets(std::string_view table);

}  // namespace ddprun::launcher::ctl
