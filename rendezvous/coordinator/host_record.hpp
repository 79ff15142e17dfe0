// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <map>
#include <optional>
#include <string>

namespace ddprun::coordinator {

/// Hosts that come and go. Each loss of one ends a round on every node, so a host that goes again
/// soon after it came waits before it is let in: longer each time.
class HostRecord {
public:
    /// A node of this host was lost or left in this round. Several of one host count once.
    void note_gone(const std::string& host, int round, Instant now);
    /// Until when nodes of this host stand by; nothing: they need not.
    std::optional<Instant> stands_by_until(const std::string& host, Instant now) const;

private:
    struct Entry {
        int round = -1;
        Duration pause{};
        /// It went, or could come back, then: whichever is later.
        Instant back_at{};
    };
    std::map<std::string, Entry> entries_;
};

}  // namespace ddprun::coordinator
