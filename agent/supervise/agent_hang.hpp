// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

#include <optional>

/// The agent inspects its workers (--hang-after), and carries out the server's decision about a
/// hang.
namespace ddprun::agent {

/// Requires: the round's workers have started.
void begin_watch(AgentStep& step);
std::optional<Instant> look_at(const AgentData& agent);
void look_at_workers(AgentStep& step);
void on_workers_seen(AgentStep& step, AgentInterface::WorkersSeen seen);
void on_hang_found(AgentStep& step, control::HangFound found);

}  // namespace ddprun::agent
