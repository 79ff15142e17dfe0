// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// What this node reports to the server. After every event the state to report is compared with
/// what was reported, so a reconnect at any moment needs no code of its own.
namespace ddprun::agent {

void report_to_server(AgentStep& step);

}  // namespace ddprun::agent
