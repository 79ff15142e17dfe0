// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"
#include "rendezvous/coordinator/status.hpp"

#include <cstddef>
#include <string>

/// Commands of `ddprunctl` from any machine, which come on a connection of their own. The caller
/// has proved the secret of the job's tenant.
namespace ddprun::coordinator {

/// A command for this job that changes it: stop, drain, undrain or resize.
struct JobCommanded {
    ConnectionId connection;
    control::JobCommand command;
    /// The sender, for the log and for the job's causes (`sender_text`).
    std::string by;
};

/// Performs the command, answers on the connection, and reports the command for the log.
void on_commanded(JobStep& step, const JobCommanded& commanded);

/// "ddprunctl at 10.0.0.5 (stated: alice@login1)". The stated name is clear text of the caller: it
/// is made printable and cut.
std::string sender_text(const std::string& address, const std::string& stated);

/// The part of a job's status that an answer has.
control::JobSummary summary_of(const JobStatus& status, bool has_nodes);

}  // namespace ddprun::coordinator
