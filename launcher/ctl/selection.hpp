// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/ctl/agent_sockets.hpp"
#include "rendezvous/control/command.hpp"

#include <cstddef>
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

/// The nodes of one job, each with its view.
struct ByConnection {
    /// The server has them: any of these passes a stop on to all others, and has the server's page.
    std::vector<FoundAgent> connected = {};
    /// Each of these stops itself alone.
    std::vector<FoundAgent> cut_off = {};
};
ByConnection by_connection(const std::vector<FoundAgent>& agents);

/// Those that get a signal: the nodes that have workers, or all where none has; with a rank only
/// the one that has it, or the first of them where none has it, which says so.
std::vector<FoundAgent> agents_to_signal(
    const std::vector<FoundAgent>& agents, const std::optional<int>& rank);

/// The worker of a rank, and its node among those that are asked.
struct RankPlace {
    int rank = 0;
    std::size_t agent = 0;

    bool operator==(const RankPlace&) const = default;
};

/// Of the ranks that these nodes have, in their order, those from `first` to `last`; without them
/// all. Requires: each with its view.
std::vector<RankPlace> ranks_of(
    const std::vector<FoundAgent>& agents, std::optional<int> first, std::optional<int> last);

/// In the order in which they are listed: by run id, incarnation, group rank and pid.
void sort_for_list(std::vector<FoundAgent>& agents);

}  // namespace ddprun::launcher::ctl
