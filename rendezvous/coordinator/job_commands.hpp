// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"
#include "rendezvous/coordinator/status.hpp"

#include <cstddef>
#include <string>

/// Commands of `ddprunctl` from any machine, which come on a connection of their own. The caller
/// has proved the secret of the job's tenant.
namespace ddprun::coordinator {

/// Performs the command, answers on the connection, and reports the command for the log. A command
/// that agents perform is answered when they have answered (worker_orders.hpp).
void on_commanded(JobStep& step, const JobCommanded& commanded);

void answer_command(JobStep& step, const JobCommanded& commanded, control::JobCommandAnswer answer);
/// Ends the connection of a command that agents perform. That of any other command is closed by the
/// coordinator.
void close_command(JobStep& step, const JobCommanded& commanded);
bool is_for_workers(control::JobCommand::What what);

/// "ddprunctl at 10.0.0.5 (stated: alice@login1)". The stated name is clear text of the caller: it
/// is made printable and cut.
std::string sender_text(const std::string& address, const std::string& stated);

/// The part of a job's status that an answer has.
control::JobSummary summary_of(const JobStatus& status, bool has_nodes);

}  // namespace ddprun::coordinator
