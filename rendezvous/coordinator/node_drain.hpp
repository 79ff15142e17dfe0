// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

/// Commands that take nodes out of a job, and admit their hosts again. A drained node gets an order
/// and sends a `Leave`, as after SIGTERM to its `ddprun`. The job then handles this `Leave` like
/// any other. A node that joins from its host later is a member without a place until the host is
/// undrained. Other nodes of the host that were members before are not affected.
namespace ddprun::coordinator {

/// Performs the command and reports to the sender what was done, or why it was refused.
void on_drain(JobStep& step, Member& sender, const control::Drain& drain);
void on_undrain(JobStep& step, Member& sender, const control::Undrain& undrain);

/// Sends the order again to a drained node that has not announced its leave: the order may have
/// been lost with a connection. Does nothing for a node that is not in the job.
void repeat_drain(const JobStep& step, const Nonce& nonce);

}  // namespace ddprun::coordinator
