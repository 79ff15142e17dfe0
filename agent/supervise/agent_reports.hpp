// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// What this node reports to the server. What is to be reported is compared with what was reported
/// after every event, so a reconnect at any moment needs no case of its own.
namespace ddprun::agent {

void report_to_server(AgentStep& step);

}  // namespace ddprun::agent
