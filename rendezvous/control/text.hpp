// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <string>

/// One line per message, for traces, transcripts and test failures.
namespace ddprun::control {

std::string describe(const AgentMessage& message);
std::string describe(const ServerMessage& message);
std::string describe(const WorkerEnd& end);  ///< "killed by SIGSEGV (core dumped)"
std::string describe(const Cause& cause);
std::string_view name_of(NodeState state);
std::string_view name_of(Outcome outcome);
std::string_view name_of(Cause::Kind kind);

/// "SIGTERM", or "signal 71".
std::string signal_name(int signal);

}  // namespace ddprun::control
