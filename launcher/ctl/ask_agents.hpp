// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/ctl/outcome.hpp"
#include "launcher/ctl/screens.hpp"
#include "launcher/ctl/selection.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/command.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::ctl {

/// Queries all agents of this machine. A socket counts as an agent of the user whose process
/// listens there, whatever its name says; root queries agents of any user, other users only their
/// own. Only a socket that accepts no connection at all is attributed to the user in its name.
Result<FoundAgents> find_agents();

struct Question {
    const FoundAgent& agent;
    control::Command command;
};

/// Sends all requests at once; the answers are in the same order.
std::vector<AgentAnswer> ask_agents(const std::vector<Question>& questions, Duration timeout);

/// Sends the command to all of them at once; the answers are in the same order.
std::vector<AgentAnswer> command_agents(
    const std::vector<FoundAgent>& agents,
    const control::Command& command,
    Duration timeout = limits::command_answer_timeout);

/// Fetches `/status` of the job from this node's server, in clear text.
JobPage fetch_job_page(const control::NodeView& view);

}  // namespace ddprun::launcher::ctl
