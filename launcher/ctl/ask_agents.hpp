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

/// All agents of this machine, each asked what it knows. A socket counts as an agent of the user
/// whose process listens there: as root of any user, else of its own user alone, whatever the name
/// says. Only one that takes no connection at all is of the user in its name.
Result<FoundAgents> find_agents();

struct Question {
    const FoundAgent& agent;
    control::Command command;
};

/// All at once; the answers in the same order.
std::vector<AgentAnswer> ask_agents(const std::vector<Question>& questions, Duration timeout);

/// To each of them at once; the answers in the same order.
std::vector<AgentAnswer> command_agents(
    const std::vector<FoundAgent>& agents,
    const control::Command& command,
    Duration timeout = limits::command_answer_timeout);

/// `/status` of the job at the server of this node, in clear text.
JobPage fetch_job_page(const control::NodeView& view);

}  // namespace ddprun::launcher::ctl
