// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_interface.hpp"

#include <utility>
#include <vector>

namespace ddprun::agent {

/// What an agent is notified of where nodes vote about the leader: whether another server can
/// follow, and whether the job is lost with this process. For programs and the simulator.
class Succession {
public:
    struct Facts {
        /// This process's server leads.
        bool is_leading = false;
        /// Others than the leader vote.
        bool can_others_follow = false;
    };

    /// The events for the agent: what has changed since the last call.
    std::vector<AgentInterface::Event> update(const Facts& facts) {
        std::vector<AgentInterface::Event> events;
        const bool is_hosting = facts.is_leading && !facts.can_others_follow;
        if (std::exchange(can_others_follow_, facts.can_others_follow) != facts.can_others_follow)
            events.emplace_back(AgentInterface::SuccessionChanged{facts.can_others_follow});
        if (std::exchange(is_hosting_, is_hosting) != is_hosting)
            events.emplace_back(AgentInterface::HostingChanged{is_hosting});
        return events;
    }
    /// Another record begins, for which the next welcome says whether others can follow.
    void begin_record() { can_others_follow_ = false; }

private:
    bool can_others_follow_ = false;
    bool is_hosting_ = false;
};

}  // namespace ddprun::agent
