// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/plan/worker_env.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <string>

namespace ddprun::agent {

/// Writes the log line of a `Note...` effect; ignores all other effects.
void log_effect(const Agent::Effect& effect, const AgentConfig& config);

/// The text for the screen: the headline, and a row for each place at which ranks are.
std::string hang_text(const Agent::NoteHang& hang);

/// Logs that the round's workers are being started.
void log_round_started(const Agent::SpawnWorkers& order, int max_restarts);

/// Logs that a rank of this node has the standard input of `ddprun`. `grace`: the job's grace.
void log_attachment(const Attachment& attachment, Duration grace);

}  // namespace ddprun::agent
