// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/ctl/agent_sockets.hpp"
#include "rendezvous/control/command.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

/// Which of the agents of this machine a command is for.
namespace ddprun::launcher::ctl {

/// One agent that this user may ask.
struct FoundAgent {
    AgentSocket socket;
    /// As the system says: the process that listens.
    unsigned user = 0;
    /// Empty: it did not answer.
    std::optional<control::NodeView> view = std::nullopt;
    /// Why it did not.
    std::string problem = {};
};

struct FoundAgents {
    std::vector<FoundAgent> agents;
    /// Process ids, by the names of their sockets, of the agents of other users.
    std::vector<int> pids_of_others = {};
};

/// Why no agent is meant.
struct NotFound {
    int exit_code;
    std::string reason;

    bool operator==(const NotFound&) const = default;
};

/// The nodes of one job, all that answered; without `run_id`, of the only job.
using Selection = std::variant<std::vector<FoundAgent>, NotFound>;
Selection select(
    const FoundAgents& found, const std::optional<std::string>& run_id, std::optional<int> pid);

/// The nodes of one job, each with its view, as a stop is given to them.
struct StopPlan {
    /// The server has them: one of these passes it on to all others.
    std::vector<FoundAgent> connected = {};
    /// Each of these ends itself alone.
    std::vector<FoundAgent> cut_off = {};
};
StopPlan plan_to_stop(const std::vector<FoundAgent>& agents);

/// Those that get a signal: with a rank only the node that has it, or the first one where none has
/// it, which says so; else the nodes that have workers, or all where none has.
std::vector<FoundAgent> agents_to_signal(
    const std::vector<FoundAgent>& agents, const std::optional<int>& rank);

/// In the order in which they are listed: by run id, incarnation, group rank and pid.
void sort_for_list(std::vector<FoundAgent>& agents);

}  // namespace ddprun::launcher::ctl
