// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "rendezvous/control/connect_error.hpp"

#include <string>

/// What the user can do when nodes do not meet: for the screen and the report. Only what this node
/// is sure of.
namespace ddprun::agent {

/// Nodes are missing: "on each missing node: ddprun --nnodes=4 --rdzv-endpoint=node1:29400 ...",
/// and which nodes cannot come because the endpoint is this machine only.
std::string next_step_for_missing(const AgentConfig& config);

/// No server has ever welcomed this node; `error` is that of the last attempt. May be empty.
std::string next_step_after(control::ConnectError error, const AgentConfig& config);

}  // namespace ddprun::agent
