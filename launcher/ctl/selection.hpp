// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/ctl/agent_sockets.hpp"
#include "rendezvous/control/command.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// Selects the agents of this machine that a command is for.
namespace ddprun::launcher::ctl {

/// One agent that this user may query.
struct FoundAgent {
    AgentSocket socket;
    /// The user of the listening process, as reported by the system.
    unsigned user = 0;
    /// None: the agent did not answer.
    std::optional<control::NodeView> view = std::nullopt;
    /// Why it did not answer.
    std::string problem = {};
};

struct FoundAgents {
    std::vector<FoundAgent> agents;
    /// Process ids of other users' agents, taken from the names of their sockets.
    std::vector<int> pids_of_others = {};
};

/// Why no agent is selected.
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
    /// Nodes that are connected to the server: any of them forwards a stop to all others, and has
    /// the server's page.
    std::vector<FoundAgent> connected = {};
    /// Nodes without the server: each of them stops only itself.
    std::vector<FoundAgent> cut_off = {};
};
ByConnection by_connection(const std::vector<FoundAgent>& agents);

/// The nodes that get a signal: those that have workers, or all if none has any. With ranks: the
/// nodes that have some of them, or, if none has any, the first node, which reports that.
std::vector<FoundAgent> agents_to_signal(
    const std::vector<FoundAgent>& agents, const std::optional<control::RankRange>& ranks);

/// The worker of a rank, and its node among the queried ones.
struct RankPlace {
    int rank = 0;
    std::size_t agent = 0;

    bool operator==(const RankPlace&) const = default;
};

/// The ranks from `first` to `last` that these nodes have, in their order; without a range all of
/// them. Requires: each node has its view.
std::vector<RankPlace> ranks_of(
    const std::vector<FoundAgent>& agents, std::optional<int> first, std::optional<int> last);

/// Sorts for listing: by run id, incarnation, group rank and pid.
void sort_for_list(std::vector<FoundAgent>& agents);

}  // namespace ddprun::launcher::ctl
