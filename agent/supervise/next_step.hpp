// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "rendezvous/control/connect_error.hpp"

#include <string>

/// Advice for the user when nodes do not find each other, on the screen and in the report. It
/// contains only facts that this node is sure of.
namespace ddprun::agent {

/// For missing nodes: "on each missing node: ddprun --nnodes=4 --rdzv-endpoint=node1:29400 ...",
/// and which nodes cannot connect because the endpoint is a loopback address.
std::string next_step_for_missing(const AgentConfig& config);

/// For a node that no server has ever welcomed. `error`: the error of the last attempt. May be
/// empty.
std::string next_step_after(control::ConnectError error, const AgentConfig& config);

/// For a node that was a member, and whose server is gone: what would have saved the job.
/// `was_hosted`: the server was part of a `ddprun`, and was not elected. Empty: nothing.
std::string next_step_after_loss(bool was_hosted, const AgentConfig& config);

}  // namespace ddprun::agent
