// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// What the server says.
namespace ddprun::agent {

/// On the current connection.
void on_message(AgentStep& step, control::ServerMessage message);

}  // namespace ddprun::agent
