// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"

namespace ddprun::agent {

struct AgentSide;       // keeper.hpp
struct InheritedState;  // process/inherited_state.hpp

/// Runs one node's part of a job from its first connection to its last process, in the process that
/// the keeper forked. Connects the agent machine with sockets, processes, the round's store and, if
/// this node owns the endpoint, the rendezvous server.
///
/// `start` is the state with which ddprun was started; the workers get it again. Blocks until no
/// process of the job is left on this node, and returns the exit code (docs/exit-codes.md lists
/// them). By then the report for the user is on standard error. Called once, on the first thread of
/// a process that has no other.
int run_agent(const AgentConfig& config, const InheritedState& start, AgentSide keeper_side);

}  // namespace ddprun::agent
