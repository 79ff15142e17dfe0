// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <string>
#include <string_view>
#include <vector>

/// One line per message, for traces, transcripts and test failures; and the names of enumerators,
/// the same on the wire, in the report and in logs.
namespace ddprun::control {

std::string describe(const AgentMessage& message);
std::string describe(const ServerMessage& message);
std::string describe(const WorkerEnd& end);  ///< "killed by SIGSEGV (core dumped)"
/// As above, but "could not be started" when there is no process id, because the system refused a
/// new process.
std::string describe(const WorkerEnd& end, int pid);
std::string describe(const WorkerFailure& failure);  ///< "rank 3 (pid 411) exited with code 1"
std::string describe(const Cause& cause);
/// The nodes of a command, each with a space before it.
std::string words_of(const std::vector<std::string>& nodes);
/// "step 12, in phase eval"; empty when nothing was reported.
std::string describe(const WorkProgress& progress);
std::string describe(const SavePoint& save);      ///< "ballot=1 step=12 agreed"
std::string describe(const JobCommand& command);  ///< "drain job=llama7b node5 forced"
std::string describe(const NodeRange& range);     ///< "2", "1:4", "2+1"
std::string describe(const RankRange& ranks);     ///< "rank 3", "ranks 0 to 7"

/// The name of an enumerator, empty for any other value. The enumerators of a type are the
/// consecutive numbers from 0 that have a name here.
std::string_view name_of(NodeState state);
std::string_view name_of(Outcome outcome);
std::string_view name_of(Cause::Kind kind);
std::string_view name_of(WorkerEnd::Kind kind);
std::string_view name_of(WorkerFailure::FromErrorFile from_error_file);
std::string_view name_of(LateNodes policy);
std::string_view name_of(StoreAccess access);
std::string_view name_of(WorkPhase phase);
std::string_view name_of(GoodputPhase phase);
std::string_view name_of(Activity activity);
std::string_view name_of(OnHang what);
std::string_view name_of(Recovery recovery);
std::string_view name_of(Failover failover);
std::string_view name_of(SaveState state);
std::string_view name_of(JobCommand::What what);
std::string_view name_of(JobCommandAnswer::Outcome outcome);
std::string_view name_of(WorkerOrder::What what);

/// The `type` of a message on the wire.
std::string_view type_of(const AgentMessage& message);
std::string_view type_of(const ServerMessage& message);

}  // namespace ddprun::control
