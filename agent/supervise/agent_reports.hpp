// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// The reports of this node to the server. After every event the node's state is compared with the
/// state that was reported last, so a reconnect at any moment needs no code of its own.
namespace ddprun::agent {

void report_to_server(AgentStep& step);

}  // namespace ddprun::agent
