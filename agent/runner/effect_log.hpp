// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/plan/worker_env.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <string>

namespace ddprun::agent {

/// Writes the log line of an effect that is one (`Note...`); ignores all others.
void log_effect(const Agent::Effect& effect, const AgentConfig& config);

/// For the screen: the headline, and a row for each place in which ranks are.
std::string hang_text(const Agent::NoteHang& hang);

/// The round's workers are being started.
void log_round_started(const control::Assignment& assignment, int max_restarts);

/// A rank of this node has the standard input of `ddprun`. `grace` is the job's.
void log_attachment(const Attachment& attachment, Duration grace);

}  // namespace ddprun::agent
