// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <map>
#include <optional>
#include <string>

namespace ddprun::coordinator {

/// Records hosts that leave and return repeatedly. Each loss ends a round on every node. So a host
/// that leaves again soon after its return must wait before it is admitted, longer each time.
class HostRecord {
public:
    /// A node of this host was lost or left in this round. Several nodes of one host count once.
    void note_gone(const std::string& host, int round, Instant now);
    /// The time until which nodes of this host stand by; none: they are admitted at once.
    std::optional<Instant> stands_by_until(const std::string& host, Instant now) const;

private:
    struct Entry {
        int round = -1;
        Duration pause{};
        /// The time at which the host left, or may come back, whichever is later.
        Instant back_at{};
    };
    std::map<std::string, Entry> entries_;
};

}  // namespace ddprun::coordinator
