// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// Handlers of the server's messages.
namespace ddprun::agent {

/// Handles a message of the current connection.
void on_message(AgentStep& step, control::ServerMessage message);

}  // namespace ddprun::agent
